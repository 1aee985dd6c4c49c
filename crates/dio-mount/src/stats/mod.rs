//! What happened: requests, bytes by class, latencies, waits for locks.
