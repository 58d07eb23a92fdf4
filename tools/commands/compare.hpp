#pragma once

#include "commands/program.hpp"

namespace orthornn::program {

/// Adds `compare` to the command `bench`.
void add_compare(CLI::App& bench, Command& chosen);

}  // namespace orthornn::program
