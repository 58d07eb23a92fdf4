#pragma once

#include "commands/program.hpp"

namespace orthornn::program {

/// Adds `train` to the command `bench`.
void add_bench_train(CLI::App& bench, Command& chosen);

}  // namespace orthornn::program
