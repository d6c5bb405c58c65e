// SPDX-License-Identifier: BSD-2-Clause
//! A mock Sv2 template provider: enough for pool_sv2 to make jobs, every so often a new template,
//! every so many templates a new block. usage: template_provider ADDRESS MS_PER_TEMPLATE TEMPLATES_PER_BLOCK

use std::error::Error;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use stratum_apps::key_utils::{Secp256k1PublicKey, Secp256k1SecretKey};
use stratum_apps::network_helpers::accept_noise_connection;
use stratum_apps::stratum_core::common_messages_sv2::SetupConnectionSuccessOwned;
use stratum_apps::stratum_core::parsers_sv2::{
    AnyMessageOwned, CommonMessagesOwned, TemplateDistributionOwned,
};
use stratum_apps::stratum_core::template_distribution_sv2::{
    NewTemplateOwned, SetNewPrevHashOwned,
};
use stratum_apps::utils::types::OutboundFrame;
use tokio::net::{TcpListener, TcpStream};

/// The public example keys of the reference configuration.
const PUBLIC_KEY: &str = "9auqWEzQDVyd2oe1JVGFLMLHZtCo2FFqZwtKA5gd9xbuEu7PH72";
const SECRET_KEY: &str = "mkDLTBBRxdBv998612qipDYoTK3YUrqLe8uWw7gu3iXbSrn2n";
const N_BITS: u32 = 0x1d00ffff;

/// The output that commits to an empty block's witnesses.
const WITNESS_COMMITMENT: [u8; 47] = [
    0, 0, 0, 0, 0, 0, 0, 0, 38, 106, 36, 170, 33, 169, 237, 226, 246, 28, 63, 113, 209, 222, 253,
    63, 169, 153, 223, 163, 105, 83, 117, 92, 105, 6, 137, 121, 153, 98, 180, 139, 235, 216, 54,
    151, 78, 140, 249,
];

fn new_template(id: u64, future: bool) -> AnyMessageOwned {
    let prefix = vec![3, id as u8, (id >> 8) as u8, 1];
    AnyMessageOwned::TemplateDistribution(TemplateDistributionOwned::NewTemplate(
        NewTemplateOwned {
            template_id: id,
            future_template: future,
            version: 0x2000_0000,
            coinbase_tx_version: 2,
            coinbase_prefix: prefix.try_into().expect("4 bytes fit"),
            coinbase_tx_input_sequence: u32::MAX,
            coinbase_tx_value_remaining: 5_000_000_000 - id % 1000,
            coinbase_tx_outputs_count: 1,
            coinbase_tx_outputs: WITNESS_COMMITMENT
                .to_vec()
                .try_into()
                .expect("47 bytes fit"),
            coinbase_tx_locktime: 0,
            merkle_path: vec![].try_into().expect("nothing fits"),
        },
    ))
}

fn new_block(id: u64) -> AnyMessageOwned {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_secs()) as u32;
    let mut prev_hash = vec![0; 32];
    prev_hash[..8].copy_from_slice(&id.to_le_bytes());
    prev_hash[8] = 0xab;
    let mut target = vec![0; 32]; // of N_BITS, little endian
    target[26..28].fill(0xff);
    let message = SetNewPrevHashOwned {
        template_id: id,
        prev_hash: prev_hash.try_into().expect("32 bytes fit"),
        header_timestamp: now,
        n_bits: N_BITS,
        target: target.try_into().expect("32 bytes fit"),
    };
    AnyMessageOwned::TemplateDistribution(TemplateDistributionOwned::SetNewPrevHash(message))
}

fn frame(message: AnyMessageOwned) -> OutboundFrame {
    OutboundFrame::from_message(message).expect("own messages are well formed")
}

async fn serve(stream: TcpStream, every: Duration, per_block: u64) -> Result<(), Box<dyn Error>> {
    let public: Secp256k1PublicKey = PUBLIC_KEY.to_string().parse().expect("a valid key");
    let secret: Secp256k1SecretKey = SECRET_KEY.to_string().parse().expect("a valid key");
    let stream = accept_noise_connection(stream, public, secret, 100_000)
        .await
        .map_err(|e| format!("handshake: {e:?}"))?;
    let (mut from, mut to) = stream.into_split();
    from.read_frame()
        .await
        .map_err(|e| format!("set-up: {e:?}"))?;
    let success = SetupConnectionSuccessOwned {
        used_version: 2,
        flags: 0,
    };
    let success = CommonMessagesOwned::SetupConnectionSuccess(success);
    to.write_frame(frame(AnyMessageOwned::Common(success)))
        .await
        .map_err(|e| format!("set-up: {e:?}"))?;
    // whatever the pool has to say is read and ignored
    tokio::spawn(async move { while from.read_frame().await.is_ok() {} });
    for id in 1.. {
        let starts_block = (id - 1) % per_block == 0;
        let block = starts_block.then(|| new_block(id));
        for message in [Some(new_template(id, starts_block)), block]
            .into_iter()
            .flatten()
        {
            if to.write_frame(frame(message)).await.is_err() {
                return Ok(()); // the pool is gone
            }
        }
        tokio::time::sleep(every).await;
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [address, every_ms, per_block] = args.as_slice() else {
        return Err("usage: template_provider ADDRESS MS_PER_TEMPLATE TEMPLATES_PER_BLOCK".into());
    };
    let every = Duration::from_millis(every_ms.parse()?);
    let per_block: u64 = per_block.parse()?;
    let listener = TcpListener::bind(address).await?;
    if !listener.local_addr()?.ip().is_loopback() {
        return Err("loopback only".into());
    }
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(async move {
            if let Err(e) = serve(stream, every, per_block.max(1)).await {
                eprintln!("template_provider: {e}");
            }
        });
    }
}
