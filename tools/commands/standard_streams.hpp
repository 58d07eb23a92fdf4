#pragma once
// Standard input, output and error: they may be closed, full, or a pipe whose reader ends early.

#include <cstdio>

namespace orthornn::program {

/// For the start of the program. Closed ones are opened for nothing, so that no other file gets descriptor 0,
/// 1 or 2 and with it what is printed. From here on `stdout` is a stream that knows `go_on_without_output`.
void open_standard_streams();

/// For a command that keeps more than it prints. What cannot be written to standard output is lost from now
/// on, noted once, and the command goes on. Without this call SIGPIPE ends the program, as it does others,
/// and fmt::print throws.
void go_on_without_output();

/// Whether the command goes on without its output.
bool goes_on_without_output();

/// Writes what waits in memory. Returns errno of the first write of standard output that failed, or 0.
int flush_output();

/// `fileno`, also of `stdout`, which has no number of its own.
int descriptor_of(std::FILE* stream);

}  // namespace orthornn::program
