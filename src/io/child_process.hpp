#pragma once

#include <functional>
#include <string>

namespace orthornn {

/// Runs `work` in a child process (fork) that prints nothing and may take `seconds` of processor time; waits
/// for its end. Returns "" when `work` returned or threw in the child, else how the child ended: "signal 11",
/// "more than 2 s of processor time". The child is a copy of this process without its other threads: `work`
/// must not wait for them, nor use a GPU. Throws FileError when no process can be started.
std::string end_of_child(int seconds, const std::function<void()>& work);

}  // namespace orthornn
