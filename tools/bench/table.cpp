#include "bench/table.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <utility>

#include "commands/machine.hpp"
#include "support/statistics.hpp"

namespace orthornn::program {
namespace {

std::string printed_value(const TableColumn& column, const Json& row) {
  const Json::json_pointer place(column.place);
  if (!row.contains(place) || row.at(place).is_null()) return "";
  const Json& value = row.at(place);
  if (value.is_string()) return printable(value.get<std::string>());
  if (!value.is_number_float()) return value.dump();
  const auto number = value.get<double>();
  // As wide as a column where it can be.
  const char* format = std::abs(number) < 1e9 ? column.format : ".3e";
  return fmt::format(fmt::runtime(fmt::format("{{:{}}}", format)), number);
}

void print_line(std::span<const TableColumn> columns, const auto& text_of) {
  std::string line;
  for (const TableColumn& column : columns) {
    if (!line.empty()) line += ' ';
    line +=
        fmt::format(fmt::runtime(*column.format == 0 ? "{:<{}}" : "{:>{}}"), text_of(column), column.width);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

/// Adds what follows from the times of a row.
void add_rates(Json& row, const Measured& measured, const Samples& samples) {
  const double total = row["total_ms"];
  if (measured.steps > 0) row["step_us"] = total * 1e3 / static_cast<double>(measured.steps);
  if (measured.flops == 0) return;
  const auto gflops_in = [&](double milliseconds) { return measured.flops / milliseconds * 1e-6; };
  row["gflop"] = measured.flops * 1e-9;
  row["gflops"] = gflops_in(total);
  if (samples.reference.empty()) return;
  std::vector<double> shares;
  for (std::size_t i = 0; i < samples.reference.size(); ++i)
    shares.push_back(gflops_in(samples.total_ms[i]) / samples.reference[i]);
  row["gemm_gflops"] = median(samples.reference);
  row["share_of_gemm"] = median(shares);
  row["gemm_samples_gflops"] = samples.reference;
}

}  // namespace

std::optional<double> number_at(const Json& row, const char* place) {
  const Json::json_pointer pointer(place);
  if (!row.contains(pointer) || !row.at(pointer).is_number()) return std::nullopt;
  return row.at(pointer).get<double>();
}

void print_titles(std::span<const TableColumn> columns) {
  print_line(columns, [](const TableColumn& column) { return std::string(column.title); });
}

void print_row(std::span<const TableColumn> columns, const Json& row) {
  print_line(columns, [&row](const TableColumn& column) { return printed_value(column, row); });
}

BenchTable::BenchTable(SamplingOptions options, const Execution& execution, std::string precision)
    : options_(std::move(options)), execution_(execution), precision_(std::move(precision)) {
  options_.complete(execution.device);
}

void BenchTable::begin(std::vector<TableColumn> columns, const std::string& product,
                       const std::vector<TableColumn>& more) {
  columns_ = std::move(columns);
  const auto add = [&](const std::vector<TableColumn>& added) {
    columns_.insert(columns_.end(), added.begin(), added.end());
  };
  fmt::print("{}, {} threads, medians of {} after a warm-up\n", machine_text(execution_.device, precision_),
             thread_count(), options_.samples);
  add({{"forward ms", "/forward_ms", 11, ".3f"},
       {"backward ms", "/backward_ms", 11, ".3f"},
       {"total ms", "/total_ms", 11, ".3f"}});
  if (!product.empty()) {
    fmt::print("GFLOP/s: of the arithmetic that a row needs\n");
    add({{"GFLOP/s", "/gflops", 8, ".1f"}});
    if (!execution_.device.is_cuda()) {
      fmt::print("GEMM: GFLOP/s of Eigen's product of {}, timed after each sample; share: of it\n", product);
      add({{"GEMM", "/gemm_gflops", 8, ".1f"}, {"share", "/share_of_gemm", 6, ".2f"}});
    }
  }
  add(more);
  fmt::print("\n");
  print_titles(columns_);
}

void BenchTable::time(const Measured& measured) {
  const Samples samples =
      take_samples(execution_.device, measured.pass, options_.samples, measured.reference);
  Json row = measured.fields;
  row.update(measured.details());
  row.update(machine_fields(execution_));
  row["precision"] = precision_;
  samples.add_to(row);
  add_rates(row, measured, samples);
  print_row(columns_, row);
  rows_.push_back(std::move(row));
}

int BenchTable::finish() const {
  options_.results.write(rows_);
  return success;
}

}  // namespace orthornn::program
