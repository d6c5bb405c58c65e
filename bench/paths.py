def paths(): pass
