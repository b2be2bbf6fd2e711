// The self-test of serve_load: parsers and statistics by themselves, every scenario against the fake server.
#pragma once

namespace tessera::load {

/// Runs all tests and prints those that fail. Returns the number of failed tests.
int run_self_test();

}  // namespace tessera::load
