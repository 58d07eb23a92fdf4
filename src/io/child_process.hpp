#pragma once

#include <functional>
#include <string>

namespace orthornn::detail {

/// Runs `work` in a child process (fork) that prints nothing and may take `seconds` of processor time; waits
/// for its end. Returns "" when the child came to the end of `work`, by an exception too, else how it ended:
/// "signal 11", "more than 2 s of processor time". The child is a copy of this process without its other
/// threads: `work` must not wait for them, nor use a GPU. Throws FileError when no process can be made.
std::string end_of_child(int seconds, const std::function<void()>& work);

}  // namespace orthornn::detail
