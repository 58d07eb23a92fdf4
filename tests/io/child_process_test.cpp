#include "io/child_process.hpp"

#include <csignal>
#include <cstdlib>
#include <stdexcept>

#include "support/catch.hpp"

using orthornn::end_of_child;
using orthornn::testing::contains;

TEST_CASE("how a child process ended is told", "[io][long]") {
  CHECK(end_of_child(2, [] {}) == "");
  CHECK(end_of_child(2, [] { throw std::runtime_error("met again by the parent"); }) == "");
  CHECK(end_of_child(2, [] { std::raise(SIGSEGV); }) == "signal 11");
  CHECK(end_of_child(2, [] { std::_Exit(0); }) == "a failed check");
  CHECK_THAT(end_of_child(1,
                          [] {
                            for (volatile bool forever = true; forever;) continue;
                          }),
             contains("more than 1 s of processor time"));
  int here = 1;
  CHECK(end_of_child(2, [&] { here = 2; }) == "");
  CHECK(here == 1);
  // A program that does not wait for its children.
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  CHECK(end_of_child(2, [] {}) == "");
  CHECK(end_of_child(2, [] { std::raise(SIGSEGV); }) == "a failed check");
  std::signal(SIGCHLD, before);
}
