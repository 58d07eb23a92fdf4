#include "linalg/thin_product.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <type_traits>

#include "core/thread_scratch.hpp"

namespace orthornn {
namespace {

template <class T>
using Packet = typename Eigen::internal::packet_traits<T>::type;
template <class T>
constexpr Index lanes = Eigen::internal::unpacket_traits<Packet<T>>::size;

struct PackedRows;
struct RowSums;

template <class T>
T entry(const Operand<T>& a, Index row, Index col) {
  return a.is_transposed ? a.matrix(col, row) : a.matrix(row, col);
}

/// Calls body(constant, first) for 0 .. count - 1 in pieces of `most`, and one smaller piece at the end.
template <Index most, class Body>
void in_pieces(Index count, const Body& body) {
  Index first = 0;
  for (; first + most <= count; first += most) body(std::integral_constant<Index, most>(), first);
  if constexpr (most > 1) {
    in_pieces<most - 1>(count - first, [&](auto constant, Index more) { body(constant, first + more); });
  }
}

// 1. b as it is: an entry of c is the product of a row of a with a column of b, both contiguous.

/// Numbers of a row of a that are packed at a time. Those of all rows stay in the second-level cache.
constexpr Index dot_depth = 2048;

/// c(k, j) += the products of `rows` rows of a, packed with `stride` between them, with `cols` columns of b.
/// Ten sums hide the latency of the multiply-adds.
template <Index rows, Index cols, class T>
void add_dots(const T* a, Index stride, MatrixView<const T> b, MatrixView<T> c) {
  using namespace Eigen::internal;
  Packet<T> sums[rows][cols];
  for (auto& row : sums) {
    for (Packet<T>& sum : row) sum = pset1<Packet<T>>(T{0});
  }
  Index i = 0;
  for (; i + lanes<T> <= b.rows; i += lanes<T>) {
    Packet<T> columns[cols];
    for (Index j = 0; j < cols; ++j) columns[j] = ploadu<Packet<T>>(b.column(j) + i);
    for (Index k = 0; k < rows; ++k) {
      const auto left = pload<Packet<T>>(a + k * stride + i);
      for (Index j = 0; j < cols; ++j) sums[k][j] = pmadd(left, columns[j], sums[k][j]);
    }
  }
  for (Index k = 0; k < rows; ++k) {
    for (Index j = 0; j < cols; ++j) {
      T sum = predux(sums[k][j]);
      for (Index tail = i; tail < b.rows; ++tail) sum += a[k * stride + tail] * b(tail, j);
      c(k, j) += sum;
    }
  }
}

template <class T>
void add_by_dots(T alpha, const Operand<T>& a, MatrixView<const T> b, MatrixView<T> c) {
  const Index stride = (std::min(dot_depth, b.rows) + 15) / 16 * 16;
  T* packed = thread_scratch<T, PackedRows>(c.rows * stride);
  for (Index i = 0; i < b.rows; i += dot_depth) {
    const Index count = std::min(dot_depth, b.rows - i);
    for (Index k = 0; k < c.rows; ++k) {
      for (Index m = 0; m < count; ++m) packed[k * stride + m] = alpha * entry(a, k, i + m);
    }
    in_pieces<2>(c.cols, [&](auto cols, Index j) {
      in_pieces<5>(c.rows, [&](auto rows, Index k) {
        add_dots<rows, cols, T>(packed + k * stride, stride, b.block(i, j, count, cols),
                                c.block(k, j, rows, cols));
      });
    });
  }
}

// 2. The transpose of b: a column of the memory of b has neighbours of a row of c.

/// Columns of b's memory that are summed before the sum is added to c: long sums in one float lose digits.
constexpr Index outer_depth = 256;
/// Rows of b's memory at a time, whose sums stay in the first-level cache.
constexpr Index outer_rows = 256;
/// Columns that are added to a sum between its load and its store.
constexpr Index outer_group = 4;

/// sums(k, i) += the products of `count` columns of b with the numbers of a, which are packed as [K][count].
template <Index count, class T>
void add_columns(const T* a, MatrixView<const T> b, Index rows, T* sums) {
  using namespace Eigen::internal;
  constexpr Index together = 2 * lanes<T>;
  Index i = 0;
  for (; i + together <= b.rows; i += together) {
    Packet<T> columns[count][2];
    for (Index j = 0; j < count; ++j) {
      columns[j][0] = ploadu<Packet<T>>(b.column(j) + i);
      columns[j][1] = ploadu<Packet<T>>(b.column(j) + i + lanes<T>);
    }
    for (Index k = 0; k < rows; ++k) {
      T* sum = sums + k * outer_rows + i;
      auto low = pload<Packet<T>>(sum), high = pload<Packet<T>>(sum + lanes<T>);
      for (Index j = 0; j < count; ++j) {
        const auto factor = pset1<Packet<T>>(a[k * count + j]);
        low = pmadd(columns[j][0], factor, low);
        high = pmadd(columns[j][1], factor, high);
      }
      pstore(sum, low);
      pstore(sum + lanes<T>, high);
    }
  }
  for (; i < b.rows; ++i) {
    for (Index k = 0; k < rows; ++k) {
      for (Index j = 0; j < count; ++j) sums[k * outer_rows + i] += b(i, j) * a[k * count + j];
    }
  }
}

template <class T>
void add_by_outer_products(T alpha, const Operand<T>& a, MatrixView<const T> b, MatrixView<T> c) {
  T* sums = thread_scratch<T, RowSums>(c.rows * outer_rows);
  T* packed = thread_scratch<T, PackedRows>(c.rows * outer_depth);
  for (Index m = 0; m < b.cols; m += outer_depth) {
    const Index depth = std::min(outer_depth, b.cols - m);
    in_pieces<outer_group>(depth, [&](auto count, Index j) {
      for (Index k = 0; k < c.rows; ++k) {
        for (Index l = 0; l < count; ++l) packed[j * c.rows + k * count + l] = alpha * entry(a, k, m + j + l);
      }
    });
    for (Index i = 0; i < b.rows; i += outer_rows) {
      const Index rows = std::min(outer_rows, b.rows - i);
      std::fill_n(sums, c.rows * outer_rows, T{0});
      in_pieces<outer_group>(depth, [&](auto count, Index j) {
        add_columns<count, T>(packed + j * c.rows, b.block(i, m + j, rows, count), c.rows, sums);
      });
      for (Index r = 0; r < rows; ++r) {
        for (Index k = 0; k < c.rows; ++k) c(k, i + r) += sums[k * outer_rows + r];
      }
    }
  }
}

}  // namespace

bool is_thin_product(Index rows, Index cols, Index depth) {
  constexpr Index most_rows = 32, least_cols = 64, least_depth = 64;
  return rows <= most_rows && cols >= least_cols && depth >= least_depth;
}

template <class T>
void thin_multiply_add(T alpha, const Operand<T>& a, const Operand<T>& b, MatrixView<T> c, Index col) {
  if (b.is_transposed)
    add_by_outer_products(alpha, a, b.matrix.block(col, 0, c.cols, b.matrix.cols), c);
  else
    add_by_dots(alpha, a, b.matrix.columns(col, c.cols), c);
}

template void thin_multiply_add<float>(float, const Operand<float>&, const Operand<float>&, MatrixView<float>,
                                       Index);
template void thin_multiply_add<double>(double, const Operand<double>&, const Operand<double>&,
                                        MatrixView<double>, Index);

}  // namespace orthornn
