#pragma once
// Tables that benchmarks print, a line as soon as it is known.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/benchmark.hpp"
#include "bench/measured.hpp"

namespace orthornn::program {

struct TableColumn {
  const char* title;
  /// Where the JSON of a row has the value, as a JSON pointer: "/test/bleu/score".
  const char* place;
  int width;
  /// How fmt prints a number: ".3f". A column of names has none, and begins on the left.
  const char* format = "";
};

/// The number at that place; nothing for a row that has none there.
std::optional<double> number_at(const Json& row, const char* place);

void print_titles(std::span<const TableColumn> columns);
/// What a row does not have stays empty.
void print_row(std::span<const TableColumn> columns, const Json& row);

/// Times rows, prints each as soon as it is timed, and writes them all.
class BenchTable {
 public:
  /// `precision` is that of the numbers. Throws as `ResultsFile::check`.
  BenchTable(SamplingOptions options, const Execution& execution, std::string precision);

  /// Prints where and how rows are timed, and the titles. `columns` tell the rows apart, and `more` come
  /// after their times and rates. `product` is the size of Eigen's product that they are compared with; ""
  /// for rows without rates.
  void begin(std::vector<TableColumn> columns, const std::string& product,
             const std::vector<TableColumn>& more = {});
  void time(const Measured& measured);
  /// An array of the rows that were timed.
  const Json& rows() const { return rows_; }
  /// Writes the rows. Returns the exit code.
  int finish() const;

 private:
  SamplingOptions options_;
  Execution execution_;
  std::string precision_;
  std::vector<TableColumn> columns_ = {};
  Json rows_ = Json::array();
};

}  // namespace orthornn::program
