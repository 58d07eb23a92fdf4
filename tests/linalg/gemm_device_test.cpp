#include <algorithm>
#include <initializer_list>
#include <limits>
#include <utility>

#include "core/back_end.hpp"
#include "cuda/core/device.hpp"
#include "cuda/linalg/split_gemm.hpp"
#include "linalg/gemm.hpp"
#include "orthornn/core/convert.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/gpu.hpp"
#include "support/random_tensor.hpp"
#include "support/tolerances.hpp"

namespace orthornn::testing {
namespace {

struct ProductSizes {
  Index rows, cols, depth;
};

/// Each product has 2^32 operations or more. One side, or all three, is no multiple of 8 numbers.
constexpr ProductSizes odd_sizes[] = {
    {1031, 1032, 2056}, {1032, 1029, 2056}, {1032, 1032, 2051}, {1031, 1029, 2051}};

/// A matrix, or its transpose, whose columns begin at multiples of 16 bytes.
struct AlignedMatrix {
  Index rows, cols;
  bool is_transposed;
  Tensor<float> numbers;

  AlignedMatrix(Index row_count, Index col_count, bool is_stored_transposed, std::uint64_t seed,
                Device device)
      : rows(is_stored_transposed ? col_count : row_count),
        cols(is_stored_transposed ? row_count : col_count),
        is_transposed(is_stored_transposed),
        numbers(normal_tensor<float>({cols, (rows + 7) / 8 * 8}, seed).copy(device)) {}

  /// A tensor of the shape of `numbers`, as this matrix.
  template <class T>
  MatrixView<T> view(Tensor<T>& of) const {
    return {of.data(), rows, cols, of.shape()[1], of.device()};
  }
  template <class T>
  Operand<T> operand(const Tensor<T>& of) const {
    return Operand<T>(MatrixView<const T>(of.data(), rows, cols, of.shape()[1], of.device()), is_transposed);
  }
};

template <class T>
Tensor<T> as(const Tensor<float>& numbers) {
  Tensor<T> result(numbers.shape());
  std::ranges::copy(numbers, result.begin());
  return result;
}

Tensor<float> transpose(const Tensor<float>& matrix) {
  Tensor<float> result({matrix.shape()[1], matrix.shape()[0]});
  for (Index i = 0; i < matrix.shape()[0]; ++i) {
    for (Index j = 0; j < matrix.shape()[1]; ++j) result(j, i) = matrix(i, j);
  }
  return result;
}

/// Calls check(left, right, result) for products of odd sizes.
template <class Check>
void for_odd_products(Device device, const Check& check) {
  for (const ProductSizes s : odd_sizes) {
    for (const bool left_is_transposed : {false, true}) {
      for (const bool right_is_transposed : {false, true}) {
        CAPTURE(s.rows, s.cols, s.depth, left_is_transposed, right_is_transposed);
        check(AlignedMatrix(s.rows, s.depth, left_is_transposed, 1, device),
              AlignedMatrix(s.depth, s.cols, right_is_transposed, 2, device),
              AlignedMatrix(s.rows, s.cols, false, 3, device));
      }
    }
  }
}

Tensor<bfloat16> rounded(const Tensor<float>& numbers) {
  Tensor<bfloat16> narrow(numbers.shape(), numbers.device());
  convert(numbers, narrow);
  return narrow;
}

Tensor<float> widened(const Tensor<bfloat16>& numbers) {
  Tensor<float> wide(numbers.shape(), numbers.device());
  convert(numbers, wide);
  return wide;
}

}  // namespace

TEST_CASE("a sum over many columns in tf32 is right where they begin at no multiples of 16 bytes",
          "[linalg][cuda]") {
  const auto device = gpu();
  if (!device || is_emulated(*device)) return;
  // More columns than are copied at a time.
  constexpr Index rows = 801, cols = 770, depth = 22'000;
  const Tensor<float> a = normal_tensor<float>({depth, rows}, 1).copy(*device),
                      b = normal_tensor<float>({depth, cols}, 2).copy(*device);
  const auto product = [&](Precision precision) {
    Tensor<float> result({cols, rows}, *device);
    gemm<float>(0.5, Operand<float>(columns_of(a)), transposed(columns_of(b)), 0, columns_of(result),
                precision);
    return result.copy(Device::cpu());
  };
  CHECK(relative_error(product(Precision::tf32), product(Precision::fp32)) <= 0x1p-11);
}

TEST_CASE("a product with few columns is right", "[linalg][cuda]") {
  const auto device = gpu();
  if (!device) return;
  // Columns one by one, and the sizes beyond which all are multiplied together.
  for (const ProductSizes s : {ProductSizes{128, 16, 128},
                               {97, 5, 190},
                               {513, 2, 65},
                               {1024, 8, 512},
                               {1024, 3, 513},
                               {64, 4, 2048},
                               {64, 4, 2049},
                               {1025, 16, 33},
                               {190, 17, 190}}) {
    for (const bool left_is_transposed : {false, true}) {
      for (const bool right_is_transposed : {false, true}) {
        CAPTURE(s.rows, s.cols, s.depth, left_is_transposed, right_is_transposed);
        const AlignedMatrix left(s.rows, s.depth, left_is_transposed, 1, *device),
            right(s.depth, s.cols, right_is_transposed, 2, *device), start(s.rows, s.cols, false, 3, *device);
        const auto product = [&]<class T>(const Tensor<T>& a, const Tensor<T>& b, Tensor<T> c) {
          gemm<T>(0.5, left.operand(a), right.operand(b), 2, start.view(c));
          return c.copy(Device::cpu());
        };
        const auto in_double = [&](const AlignedMatrix& m) {
          return as<double>(m.numbers.copy(Device::cpu())).copy(*device);
        };
        const Tensor<float> found = product(left.numbers, right.numbers, start.numbers.copy(*device));
        CHECK(
            relative_error(as<double>(found), product(in_double(left), in_double(right), in_double(start))) <=
            tolerance::rounding<float>(s.depth));
      }
    }
  }
}

TEST_CASE("a product with few columns of odd strides overwrites what was there", "[linalg][cuda]") {
  const auto device = gpu();
  if (!device) return;
  constexpr Index rows = 97, cols = 5, depth = 191;
  const Tensor<float> a = normal_tensor<float>({depth, rows}, 1), b = normal_tensor<float>({cols, depth}, 2);
  const auto product = [&]<class T>(T nothing) {
    const Tensor<T> left = as<T>(a).copy(*device), right = as<T>(b).copy(*device);
    Tensor<T> result({cols, rows});
    std::ranges::fill(result, nothing);
    result = result.copy(*device);
    gemm<T>(1, columns_of(left), columns_of(right), 0, columns_of(result));
    return result.copy(Device::cpu());
  };
  const Tensor<float> found = product(std::numeric_limits<float>::quiet_NaN());
  CHECK(relative_error(as<double>(found), product(0.0)) <= tolerance::rounding<float>(depth));
}

TEST_CASE("a long sum of products of floats on tensor cores is as right as one of floats", "[linalg][cuda]") {
  const auto device = gpu();
  if (!device || is_emulated(*device)) return;
  if constexpr (has_cuda_bodies) {
    // Tiles of both shapes, sides that fill them and sides that do not, columns that begin at multiples of
    // 16, 8 and 4 bytes, and sums that end within a chunk.
    for (const ProductSizes s : {ProductSizes{190, 190, 60'001},
                                 {301, 258, 30'003},
                                 {512, 256, 20'000},
                                 {254, 382, 25'007},
                                 {500, 500, 30'004},
                                 {192, 192, 60'000},
                                 {128, 128, 4'100},
                                 {144, 160, 12'801},
                                 {255, 255, 40'000}}) {
      // Where all numbers are positive, nothing makes up for what is cut off.
      for (const double mean : {0.0, 2.0}) {
        CAPTURE(s.rows, s.cols, s.depth, mean);
        const auto numbers = [&](Index rows, std::uint64_t seed) {
          Tensor<float> x = normal_tensor<float>({s.depth, rows}, seed);
          for (float& number : x) number += static_cast<float>(mean);
          return x;
        };
        const Tensor<float> a = numbers(s.rows, 1), b = numbers(s.cols, 2),
                            c = normal_tensor<float>({s.cols, s.rows}, 3);
        const auto product = [&]<class T>(const Operand<T>& left, Precision precision = Precision::fp32) {
          const Tensor<T> right = as<T>(b).copy(*device);
          Tensor<T> result = as<T>(c).copy(*device);
          gemm<T>(0.5, left, transposed(columns_of(right)), 2, columns_of(result), precision);
          return result.copy(Device::cpu());
        };
        const auto error = [&](const Tensor<float>& found) {
          const Tensor<double> left = as<double>(a).copy(*device);
          return relative_error(as<double>(found), product(Operand<double>(columns_of(left))));
        };
        const Tensor<float> left = a.copy(*device), left_in_rows = transpose(a).copy(*device);
        const Tensor<float> found = product(Operand<float>(columns_of(left)));
        // A short sum cuts off 24 times, on average half of 2^-24 to 2^-23 of what it is then, which is half
        // of the whole on average: 2^-21. Without the third terms an error is 2^-17.
        CHECK(error(found) <= 0x1p-20);
        // cuBLAS multiplies a matrix that lies in rows.
        const Tensor<float> by_floats = product(Operand<float>(columns_of(left_in_rows), true));
        // Shorter sums are cut off as much, and cuBLAS rounds them less.
        CHECK(error(found) <= (s.depth < 20'000 ? 6 : 4) * error(by_floats));
        CHECK(std::ranges::equal(found, product(Operand<float>(columns_of(left)))));
        if (properties_of(*device).compute_capability != "9.0") continue;
        CHECK(cuda::takes_split_gemm(*device, s.rows, s.cols, s.depth));
        // Of columns that begin anywhere, tf32 has two terms. What second terms leave of a number is 2^-17 of
        // it at most, and 2^-18.6 was found for such sums of numbers of either sign. cuBLAS's error is 2^-12.
        if (s.rows % 4 != 0 || s.cols % 4 != 0)
          CHECK(error(product(Operand<float>(columns_of(left)), Precision::tf32)) <= 0x1p-17);
      }
    }
  }
}

TEST_CASE(
    "long sums of products are the same bit by bit wherever columns begin between multiples of 16 bytes",
    "[linalg][cuda]") {
  const auto device = gpu();
  if (!device || is_emulated(*device)) return;
  if constexpr (has_cuda_bodies) {
    if (properties_of(*device).compute_capability != "9.0") return;
    constexpr Index depth = 20'000;
    // Tiles of both shapes.
    for (const Index rows : {188, 252}) {
      CHECK(cuda::takes_split_gemm(*device, rows, rows, depth));
      const Tensor<float> a = normal_tensor<float>({depth, rows}, 1),
                          b = normal_tensor<float>({depth, rows}, 2);
      // Where columns begin, and how far apart.
      struct Place {
        Index first, stride;
      };
      const auto product = [&](const Place& left, const Place& right, Precision precision) {
        // Between numbers that are none.
        const auto placed = [&](const Tensor<float>& x, const Place& place) {
          Tensor<float> result({depth, place.stride});
          std::ranges::fill(result, std::numeric_limits<float>::quiet_NaN());
          for (Index k = 0; k < depth; ++k) std::copy_n(&x(k, 0), rows, &result(k, place.first));
          return result.copy(*device);
        };
        const Tensor<float> placed_a = placed(a, left), placed_b = placed(b, right);
        const auto part = [&](const Tensor<float>& x, const Place& place) {
          return columns_of(x).block(place.first, 0, rows, depth);
        };
        Tensor<float> result({rows, rows}, *device);
        gemm<float>(1, Operand<float>(part(placed_a, left)), transposed(part(placed_b, right)), 0,
                    columns_of(result), precision);
        return result.copy(Device::cpu());
      };
      const Place at_multiples{4, rows + 4}, behind_them{1, rows + 4};
      const Tensor<float> aligned = product(at_multiples, at_multiples, Precision::fp32);
      for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::bf16}) {
        const Tensor<float> shifted = product(behind_them, behind_them, precision);
        CHECK(relative_error(as<double>(shifted), as<double>(aligned)) <=
              (precision == Precision::fp32 ? 0x1p-20 : 0x1p-17));
        for (const auto& [left, right] : {std::pair<Place, Place>{{2, rows + 4}, {2, rows + 4}},
                                          {{3, rows + 4}, {1, rows + 2}},
                                          {{0, rows + 1}, {4, rows + 5}},
                                          {at_multiples, {0, rows + 2}},
                                          {{1, rows + 3}, at_multiples}}) {
          CAPTURE(rows, left.first, left.stride, right.first, right.stride);
          CHECK(std::ranges::equal(product(left, right, precision), shifted));
        }
      }
    }
  }
}

// Slow: the emulator takes minutes for them, and has no products of bfloat16.

TEST_CASE("a large product in tf32 is right for sizes that are no multiples of 16 bytes",
          "[linalg][cuda][slow]") {
  const auto device = gpu();
  if (!device) return;
  const auto check = [](const AlignedMatrix& left, const AlignedMatrix& right, const AlignedMatrix& start) {
    const auto product = [&](Precision precision) {
      Tensor<float> result = start.numbers.copy(start.numbers.device());
      gemm<float>(1, left.operand(left.numbers), right.operand(right.numbers), 0.5, start.view(result),
                  precision);
      return result.copy(Device::cpu());
    };
    // Rounded to the nearest, a number with an 11-bit significand is off by 2^-11 at most, and by 0.42 of it
    // in root mean square. A product has two such operands.
    CHECK(relative_error(product(Precision::tf32), product(Precision::fp32)) <= 0x1p-11);
  };
  for_odd_products(*device, check);
}

TEST_CASE("a large product of bfloat16 is right for sizes that are no multiples of 16 bytes",
          "[linalg][cuda][slow]") {
  const auto device = gpu();
  if (!device) return;
  const auto check = [](const AlignedMatrix& left, const AlignedMatrix& right, const AlignedMatrix& start) {
    const Tensor<bfloat16> a = rounded(left.numbers), b = rounded(right.numbers);
    const Tensor<float> wide_a = widened(a), wide_b = widened(b);
    Tensor<float> found = start.numbers.copy(start.numbers.device());
    Tensor<float> expected = start.numbers.copy(start.numbers.device());
    gemm(left.operand(a), right.operand(b), 0.5, start.view(found));
    gemm<float>(1, left.operand(wide_a), right.operand(wide_b), 0.5, start.view(expected));
    // Products of two bfloat16 are exact in float, so only the orders of the sums differ. A result that is
    // rounded to bfloat16 is off by 0.42 * 2^-8.
    CHECK(relative_error(found.copy(Device::cpu()), expected.copy(Device::cpu())) <= 0x1p-12);
  };
  for_odd_products(*device, check);
}

}  // namespace orthornn::testing
