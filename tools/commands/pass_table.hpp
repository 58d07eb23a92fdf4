#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "commands/eigen_product.hpp"
#include "commands/program.hpp"
#include "commands/timed_pass.hpp"

namespace orthornn::program {

/// Arithmetic of a forward and of a backward, in multiplications and additions.
struct Flops {
  double forward, backward;
};

/// How the benchmark of a function takes its samples, and where they go.
struct PassTableOptions {
  int samples = 0;
  std::string json;
  bool overwrite = false;

  /// --samples, --json and --overwrite.
  void add_to(CLI::App& command);
};

/// Adds an option for a size from 1 to `largest`.
void add_size(CLI::App& command, const char* flag, Index& size, const char* help, Index largest);

/// GFLOP/s of Eigen's product of N x N by N x 64 a thread. Empty for a GPU: the product of a CPU would say
/// nothing of it.
template <class T>
std::function<double()> product_rate(Device device, Index n) {
  if (device.is_cuda()) return nullptr;
  return [product = std::make_shared<EigenProduct<T>>(n, 64 * Index{thread_count()})] {
    return product->gflops();
  };
}

/// What the benchmark of a function prints: a row for each pass, as soon as it is timed.
class PassTable {
 public:
  /// `precision` is that of the numbers; `n` is what the text about the product calls its size. Throws as
  /// `check_output`.
  PassTable(const PassTableOptions& options, const Execution& execution, std::string precision,
            const char* n);

  /// Prints what the columns are. `title` is that of a row's own ones.
  void print_head(const std::string& title) const;
  /// Times a pass. `row` is the text of its own columns, `fields` are its part of the JSON.
  void time(TimedPass pass, const Flops& flops, const std::function<double()>& rate, const std::string& row,
            nlohmann::ordered_json fields);
  /// Writes the JSON, if it was asked for.
  void finish() const;

 private:
  PassTableOptions options_;
  Execution execution_;
  std::string precision_;
  const char* n_;
  nlohmann::ordered_json results_ = nlohmann::ordered_json::array();
};

}  // namespace orthornn::program
