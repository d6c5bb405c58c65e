/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages to stderr, one line each: "roletrace: room: failed to VERB THING 'name': reason".
 * Written once, where most is known. Refused probes are results, not messages.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

void log__set_level(enum log_level level); /* default LOG_INFO */
/* From here on each line names the process it is about: "roletrace[PID]: ...". */
void log__set_scope(int pid);
/* Is called before each line: whoever has something on the screen takes it away. NULL: nobody. */
void log__set_before(void (*before)(void *arg), void *arg);
void log__write(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log__write(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log__write(LOG_WARN, __VA_ARGS__)
#define log_info(...) log__write(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log__write(LOG_DEBUG, __VA_ARGS__)

#endif
