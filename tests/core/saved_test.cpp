#include "orthornn/core/saved.hpp"

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "orthornn/core/error.hpp"
#include "support/catch.hpp"
#include "support/check_says.hpp"

using namespace orthornn;
using namespace orthornn::testing;

TEST_CASE("what is saved is there until it is popped, the last first", "[core]") {
  Saved saved(Device::cpu());
  const TensorView<float> first = saved.push<float>({3, 2});
  const TensorView<std::int8_t> second = saved.push<std::int8_t>({5});
  std::fill(first.begin(), first.end(), 1.5F);
  std::fill(second.begin(), second.end(), std::int8_t{7});
  CHECK(saved.size() == 2);
  CHECK(saved.top<std::int8_t>().shape() == Shape{5});
  CHECK(saved.top<float>(1).data() == first.data());
  for (const float x : saved.top<float>(1)) CHECK(x == 1.5F);
  saved.pop(1);
  CHECK(saved.top<float>().shape() == Shape{3, 2});
  for (const float x : saved.top<float>()) CHECK(x == 1.5F);
}

TEST_CASE("saved tensors do not overlap, and are aligned", "[core]") {
  Saved saved(Device::cpu());
  std::vector<TensorView<std::uint8_t>> views;
  // Sizes that fill, overfill and skip blocks.
  for (const Index size : {1, 300, 100000, 5, 70000, 0, 200000, 64})
    views.push_back(saved.push<std::uint8_t>({size}));
  for (std::size_t i = 0; i < views.size(); ++i)
    std::fill(views[i].begin(), views[i].end(), static_cast<std::uint8_t>(i + 1));
  for (std::size_t i = 0; i < views.size(); ++i) {
    CHECK(reinterpret_cast<std::uintptr_t>(views[i].data()) % 64 == 0);
    for (const std::uint8_t x : views[i]) REQUIRE(x == i + 1);
  }
}

TEST_CASE("the same pushes get the same addresses and no new memory", "[core]") {
  Saved saved(Device::cpu());
  const auto push_all = [&] {
    std::vector<const void*> addresses;
    for (const Index size : {100, 5000, 20, 100000}) {
      addresses.push_back(saved.push<double>({size}).data());
      const Saved::Scope scope(saved);
      addresses.push_back(saved.push<double>({700}).data());
    }
    saved.clear();
    return addresses;
  };
  const std::vector<const void*> first = push_all();
  const std::size_t bytes = saved.bytes();
  CHECK(bytes >= 105120 * sizeof(double));
  CHECK(push_all() == first);
}

TEST_CASE("memory that has become too small is given back", "[core]") {
  Saved saved(Device::cpu());
  // Each round needs more than the last: nothing but the present sizes may remain.
  for (Index size = 10'000'000; size <= 12'000'000; size += 250'000) {
    saved.push<double>({size});
    saved.push<double>({size / 2});
    const std::size_t needed = static_cast<std::size_t>(size + size / 2) * sizeof(double);
    CHECK(saved.bytes() >= needed);
    saved.clear();
    CHECK(saved.bytes() <= needed + (std::size_t{64} << 20) + 1024);
  }
  // A smaller round takes nothing new.
  const std::size_t before = saved.bytes();
  saved.push<double>({1000});
  saved.push<double>({2000});
  CHECK(saved.bytes() == before);
}

TEST_CASE("tensors below keep their contents when memory above them grows", "[core]") {
  Saved saved(Device::cpu());
  saved.push<float>({100});
  saved.clear();
  const TensorView<float> kept = saved.push<float>({50});
  std::fill(kept.begin(), kept.end(), 2.5F);
  saved.push<float>({100'000});
  for (const float x : saved.top<float>(1)) CHECK(x == 2.5F);
  saved.pop(1);
  saved.push<float>({30'000'000});
  for (const float x : saved.top<float>(1)) CHECK(x == 2.5F);
}

TEST_CASE("a scope takes off what was pushed in it, whatever ends it", "[core]") {
  Saved saved(Device::cpu());
  saved.push<float>({2});
  try {
    const Saved::Scope scope(saved);
    saved.push<float>({3});
    saved.push<float>({4});
    throw ValueError("enough");
  } catch (const ValueError&) {
  }
  CHECK(saved.size() == 1);
  CHECK(saved.top<float>().shape() == Shape{2});
}

TEST_CASE("frames within a frame are found once it is open", "[core]") {
  Saved saved(Device::cpu());
  const int outer = 0, lower = 0, upper = 0;
  const auto close = [&](const int& owner, Index first, const float* output) {
    saved.close_frame({.owner = &owner,
                       .length = 1,
                       .batch = 1,
                       .own_start = true,
                       .first = first,
                       .end = 0,
                       .output = output});
  };
  const float* y = saved.push<float>({2}).data();
  close(lower, 0, y);
  saved.push<float>({3});
  close(upper, 1, nullptr);
  close(outer, 0, nullptr);
  CHECK_THROWS_AS(saved.last_frame(&upper), ValueError);
  CHECK_THROWS_AS(saved.open_frame(&upper), ValueError);
  CHECK(saved.open_frame(&outer).first == 0);
  CHECK(saved.last_frame(&upper).first == 1);
  CHECK(saved.frame_below(1, &lower).output == y);
  CHECK_THROWS_AS(saved.frame_below(1, &upper), ValueError);
  CHECK_THROWS_AS(saved.frame_below(2, &lower), ValueError);
  saved.pop(1);
  CHECK(saved.last_frame(&lower).first == 0);
}

TEST_CASE("a stack refuses what it does not hold", "[core][errors]") {
  Saved saved(Device::cpu());
  saved.push<float>({2});
  CHECK_THAT(error_message<ValueError>([&] { saved.pop(2); }), contains("there are 1"));
  CHECK_THAT(error_message<ValueError>([&] { saved.top<float>(1); }), contains("there are 1"));
  CHECK_THAT(error_message<ValueError>([&] { saved.top<double>(); }), contains("4 bytes, expected 8"));
  const int owner = 0, other = 0;
  CHECK_THROWS_AS(saved.last_frame(&owner), ValueError);
  saved.close_frame({.owner = &owner, .length = 1, .batch = 1, .own_start = true, .first = 0, .end = 0});
  CHECK(saved.last_frame(&owner).end == 1);
  CHECK_THROWS_AS(saved.last_frame(&other), ValueError);
  saved.push<float>({1});
  CHECK_THROWS_AS(saved.last_frame(&owner), ValueError);
  saved.pop(1);
  CHECK(saved.last_frame(&owner).first == 0);
  saved.pop(1);
  CHECK_THROWS_AS(saved.last_frame(&owner), ValueError);
}
