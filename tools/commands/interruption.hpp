#pragma once

namespace orthornn::program {

/// From now on, Ctrl-C or SIGTERM ends the program with this line on standard error, where it would have
/// ended it in silence. What a process ignores it goes on ignoring. `line` must live as long as the program,
/// as a literal does.
void say_when_interrupted(const char* line);

}  // namespace orthornn::program
