#include "core/lent_memory.hpp"

#include <stdexcept>
#include <thread>
#include <vector>

#include "core/thread_scratch.hpp"
#include "orthornn/core/saved.hpp"
#include "orthornn/delta/token_layout.hpp"
#include "support/catch.hpp"

namespace orthornn::testing {
namespace {

struct OfThisTest;

/// The bytes that `make` asks for, and whether exactly as many are enough for it.
template <class Make>
std::size_t exact_bytes(const Make& make) {
  std::size_t bytes = 0;
  {
    PlannedMemory planned(Device::cpu());
    make();
    bytes = planned.needed();
  }
  std::vector<std::byte> memory(bytes + 1);
  const LentMemory lent(Device::cpu(), memory.data() + 1, bytes);
  make();
  return bytes;
}

}  // namespace

TEST_CASE("tensors are made of lent memory, one behind the other", "[lent_memory]") {
  std::vector<std::byte> memory(4096);
  {
    const LentMemory lent(Device::cpu(), memory.data(), memory.size());
    CHECK(lent.needed() == 0);
    const Tensor<float> a({3}), b({70}), none({0});
    const auto offset = [&](const Tensor<float>& x) {
      return reinterpret_cast<const std::byte*>(x.data()) - memory.data();
    };
    CHECK((offset(a) >= 0 && offset(a) < 256));
    CHECK(offset(b) == offset(a) + 256);
    CHECK(reinterpret_cast<std::uintptr_t>(b.data()) % LentMemory::alignment == 0);
    CHECK(lent.needed() == 768 + 255);
    // Memory that outlives the operation is not lent, nor is that of other threads.
    const float* const own = thread_scratch<float, OfThisTest>(8);
    CHECK_FALSE(LentMemory::lends(own));
    bool lends = true;
    std::thread([&] { lends = LentMemory::lends(Tensor<float>({2}).data()); }).join();
    CHECK_FALSE(lends);
    CHECK_THROWS_AS(Tensor<float>({4096}), std::logic_error);
  }
  const Tensor<float> after({3});
  CHECK_FALSE(LentMemory::lends(after.data()));
}

TEST_CASE("a table of a layout, which outlives an operation, is not made of lent memory", "[lent_memory]") {
  const TokenLayout layout = TokenLayout::time_major(3, 2);
  const LentMemory lent(Device::cpu(), nullptr, 0);
  const TensorView<const Index> table = layout.on(Device::cpu());
  CHECK_FALSE(LentMemory::lends(table.data()));
  CHECK(table(1, 0) == 1);
}

TEST_CASE("a layout takes a table of its caller", "[lent_memory]") {
  const std::vector<std::int64_t> offsets = {0, 2, 3};
  const TokenLayout layout = TokenLayout::packed(offsets);
  Tensor<Index> table({2, 4});
  layout.use_table(table);
  CHECK(layout.on(Device::cpu()).data() == table.data());
  CHECK_THROWS_AS(layout.use_table(TensorView<Index>(table.data(), {1, 4})), ShapeError);
}

TEST_CASE("a layout is regular where its sequences are alike", "[lent_memory]") {
  const auto packed = [](const std::vector<std::int64_t>& offsets) {
    return TokenLayout::packed(offsets).is_regular();
  };
  CHECK(TokenLayout::time_major(3, 2).is_regular());
  CHECK(TokenLayout::sequence_major(2, 3).is_regular());
  CHECK(TokenLayout::sequence_major(0, 3).is_regular());
  CHECK(packed({0, 4, 8, 12}));
  CHECK(packed({0, 5}));
  CHECK(packed({0, 0, 0}));
  CHECK_FALSE(packed({0, 4, 8, 11}));
  CHECK_FALSE(packed({0, 0, 4}));
  Tensor<std::int32_t> lengths({3});
  for (Index b = 0; b < 3; ++b) lengths(b) = 2;
  CHECK(TokenLayout::time_major(4, 3, lengths).is_regular());
  lengths(2) = 3;
  CHECK_FALSE(TokenLayout::time_major(4, 3, lengths).is_regular());
}

TEST_CASE("planned memory counts what is needed and touches nothing", "[lent_memory]") {
  CHECK(exact_bytes([] {}) == 0);
  CHECK(exact_bytes([] { Tensor<double>({1}); }) == 256 + 255);
  CHECK(exact_bytes([] {
          const Tensor<double> zeros({40});
          Tensor<float> grows({10});
          grows.resize({100});
          Saved saved(Device::cpu());
          saved.push<float>({7});
          saved.push<float>({70});
        }) == 512 + 256 + 512 + 256 + 512 + 255);
}

TEST_CASE("a stack begins in memory that it was lent", "[lent_memory][saved]") {
  std::vector<double> first(64), second(32);
  Saved saved(Device::cpu());
  saved.lend(first.data(), 512);
  saved.lend(second.data(), 256);
  CHECK(saved.push<float>({3}).data() == reinterpret_cast<float*>(first.data()));
  CHECK(saved.push<double>({32}).data() == first.data() + 32);
  CHECK(saved.push<double>({1}).data() == second.data());
  const double* const own = saved.push<double>({1}).data();
  CHECK((own < second.data() || own >= second.data() + 32));
  saved.clear();
  CHECK(saved.push<float>({3}).data() == reinterpret_cast<float*>(first.data()));
}

}  // namespace orthornn::testing
