#pragma once
// The table that `orthornn bench translate` prints.

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

namespace orthornn::program {

/// A column of numbers.
struct TableColumn {
  const char* title;
  /// Where a row has it.
  const char* place;
  int digits;

  /// Nothing for a row that has no number there.
  std::optional<double> value_in(const nlohmann::ordered_json& row) const;
};
inline constexpr TableColumn table_columns[] = {{"parameters", "/parameters", 0},
                                                {"cross-entropy", "/test/cross_entropy", 4},
                                                {"perplexity", "/test/perplexity", 3},
                                                {"padded", "/test/perplexity_with_padding", 3},
                                                {"BLEU", "/test/bleu/score", 2},
                                                {"chrF2", "/test/chrf/score", 2},
                                                {"seconds", "/seconds", 1},
                                                {"s/epoch", "/seconds_per_epoch", 2}};

void print_table_titles();
/// The numbers of a row, or why it failed.
void print_table_row(const nlohmann::ordered_json& row);

/// Mean and standard deviation over the seeds of one cell, those that are done.
nlohmann::ordered_json seeds_summary(const std::vector<const nlohmann::ordered_json*>& rows);
void print_seeds_summary(const nlohmann::ordered_json& summary);

}  // namespace orthornn::program
