#include "layers/add_by_symbol.hpp"

#include <algorithm>
#include <cmath>

#include "orthornn/core/error.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/gpu.hpp"
#include "support/random_tensor.hpp"
#include "support/same_bits.hpp"
#include "support/tolerances.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

/// Rows of g with their symbols, and what they are added to.
struct SymbolRows {
  const char* name;
  Tensor<double> g;
  Tensor<std::int32_t> symbols;
  Index symbol_count;

  /// `symbol_at(position)` for each position.
  template <class SymbolAt>
  SymbolRows(const char* what, Index count, Index columns, Index of_symbols, SymbolAt symbol_at)
      : name(what),
        g(normal_tensor<double>({count, columns}, 1)),
        symbols(Shape{count}),
        symbol_count(of_symbols) {
    for (Index i = 0; i < count; ++i) symbols(i) = static_cast<std::int32_t>(symbol_at(i));
  }

  /// Numbers that are no zeros.
  template <class T>
  Tensor<T> before() const {
    return normal_tensor<T>({symbol_count, g.shape()[1]}, 2);
  }
  Tensor<double> expected() const {
    Tensor<double> sums = before<double>();
    for (Index i = 0; i < symbols.size(); ++i) {
      if (symbols(i) < 0 || symbols(i) >= symbol_count) continue;
      for (Index n = 0; n < g.shape()[1]; ++n) sums(symbols(i), n) += g(i, n);
    }
    return sums;
  }
  template <class T>
  Tensor<T> found(Device device) const {
    Tensor<T> sums = before<T>().copy(device);
    Saved scratch(device);
    add_by_symbol<T>(cast<T>(g).copy(device), symbols.copy(device), sums, scratch);
    CHECK(scratch.size() == 0);
    return sums.copy(Device::cpu());
  }
};

/// The GPU sorts 2048 positions in a block, and adds 16 neighbours in another.
std::vector<SymbolRows> all_symbol_rows() {
  std::vector<SymbolRows> all;
  auto random_below = [random = RandomStream(3, RandomPurpose::validation)](std::uint32_t n) mutable {
    return static_cast<Index>(random.integer(n));
  };
  all.emplace_back("one position", 1, 1, 1, [](Index) { return 0; });
  all.emplace_back("all alike", 100, 3, 5, [](Index) { return 4; });
  all.emplace_back("all different, the last first", 50, 7, 50, [](Index i) { return 49 - i; });
  all.emplace_back("chunks that end where symbols do", 64, 130, 4, [](Index i) { return i / 16; });
  all.emplace_back("words", 1536, 9, 30'000,
                   [=](Index i) mutable { return i % 3 == 0 ? 2 : random_below(i % 3 == 1 ? 40 : 30'000); });
  all.emplace_back("several sorted tiles", 9000, 4, 300,
                   [=](Index i) mutable { return i % 2 == 0 ? 0 : random_below(300); });
  all.emplace_back("unknown symbols", 40, 3, 10, [](Index i) { return i % 4 == 0 ? -1 : i % 13; });
  all.emplace_back("unknown symbols alone", 40, 3, 2, [](Index i) { return i % 2 == 0 ? -5 : 2; });
  return all;
}

/// The largest error of a row, of the size of what is added to it. Rows of few terms must not hide behind one
/// of many.
template <class T>
double largest_row_error(const Tensor<T>& found, const Tensor<double>& expected) {
  double largest = 0;
  for (Index k = 0; k < expected.shape()[0]; ++k) {
    double error = 0, size = 0;
    for (Index n = 0; n < expected.shape()[1]; ++n) {
      error += std::abs(static_cast<double>(found(k, n)) - expected(k, n));
      size += std::abs(expected(k, n));
    }
    largest = std::max(largest, error / std::max(1.0, size));
  }
  return largest;
}

}  // namespace

TEMPLATE_TEST_CASE("rows are added by their symbols", "[layers]", float, double) {
  for (const SymbolRows& c : all_symbol_rows()) {
    CAPTURE(c.name);
    // The CPU's sums are in double, and rounded once.
    CHECK(largest_row_error(c.found<TestType>(Device::cpu()), c.expected()) <=
          tolerance::rounding<TestType>(1));
  }
}

TEMPLATE_TEST_CASE("rows are added by their symbols on a GPU, with the same bits twice", "[cuda]", float,
                   double) {
  const auto device = gpu();
  if (!device) return;
  for (const SymbolRows& c : all_symbol_rows()) {
    CAPTURE(c.name);
    const Tensor<TestType> found = c.found<TestType>(*device);
    CHECK(largest_row_error(found, c.expected()) <= tolerance::rounding<TestType>(c.symbols.size()));
    CHECK(same_bits(c.found<TestType>(*device), found));
  }
}

TEST_CASE("no rows are added without symbols, and other shapes are refused", "[layers]") {
  Saved scratch(Device::cpu());
  Tensor<float> sums(Shape{3, 2});
  sums(1, 1) = 5;
  add_by_symbol<float>(Tensor<float>(Shape{0, 4, 2}), Tensor<std::int32_t>(Shape{0, 4}), sums, scratch);
  CHECK(sums(1, 1) == 5);
  const Tensor<std::int32_t> symbols(Shape{3, 4});
  CHECK_THROWS_AS(add_by_symbol<float>(Tensor<float>(Shape{3, 4, 3}), symbols, sums, scratch), ShapeError);
  CHECK_THROWS_AS(add_by_symbol<float>(Tensor<float>(Shape{3, 5, 2}), symbols, sums, scratch), ShapeError);
}
