// What eval prints, against a computation of its own: a recurrence in double over the parameters of the file.

#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/model_content.hpp"
#include "cli/run_program.hpp"
#include "cli/tiny_mnist.hpp"
#include "orthornn/train/model_file.hpp"

namespace fs = std::filesystem;
using namespace orthornn;
using namespace orthornn::testing;
using Json = nlohmann::json;

namespace {

struct Figures {
  double loss = 0;
  double accuracy = 0;
  double orthogonality_error = 0;
};

/// A model with an unconstrained cell and modrelu, read from its file.
class PlainNetwork {
 public:
  explicit PlainNetwork(const fs::path& model) {
    const Hdf5Reader file(model);
    q_ = file.read<float>("parameters/cell/matrix");
    w_ = file.read<float>("parameters/cell/input_weights");
    b_ = file.read<float>("parameters/cell/bias");
    m_ = file.read<float>("parameters/cell/modrelu_bias");
    readout_ = file.read<float>("parameters/readout/weight");
    readout_bias_ = file.read<float>("parameters/readout/bias");
  }

  double orthogonality_error() const {
    const Index n = q_.shape()[0];
    double largest = 0;
    for (Index i = 0; i < n; ++i) {
      for (Index j = 0; j < n; ++j) {
        double sum = i == j ? -1 : 0;
        for (Index k = 0; k < n; ++k) sum += static_cast<double>(q_(k, i)) * q_(k, j);
        largest = std::max(largest, std::abs(sum));
      }
    }
    return largest;
  }

  /// Outputs of one sequence at all steps.
  std::vector<std::vector<double>> outputs(const Batch& batch, Index sequence) const {
    const bool symbols = batch.reals(batch_names::features).empty();
    const Index length = (symbols ? batch.integers(batch_names::symbols).shape()
                                  : batch.reals(batch_names::features).shape())[0];
    const Index n = q_.shape()[0];
    std::vector<double> h(static_cast<std::size_t>(n), 0.0);
    std::vector<std::vector<double>> all;
    for (Index t = 0; t < length; ++t) {
      std::vector<double> next(h.size());
      for (Index i = 0; i < n; ++i) {
        double a = b_(i);
        for (Index k = 0; k < w_.shape()[1]; ++k) {
          const double x = symbols ? (batch.integers(batch_names::symbols)(t, sequence) == k ? 1 : 0)
                                   : batch.reals(batch_names::features)(t, sequence, k);
          a += w_(i, k) * x;
        }
        for (Index j = 0; j < n; ++j) a += static_cast<double>(q_(i, j)) * h[static_cast<std::size_t>(j)];
        next[static_cast<std::size_t>(i)] = std::copysign(std::max(std::abs(a) + m_(i), 0.0), a);
      }
      h = next;
      std::vector<double> y;
      for (Index c = 0; c < readout_.shape()[0]; ++c) {
        double sum = readout_bias_(c);
        for (Index i = 0; i < n; ++i)
          sum += static_cast<double>(readout_(c, i)) * h[static_cast<std::size_t>(i)];
        y.push_back(sum);
      }
      all.push_back(y);
    }
    return all;
  }

 private:
  Tensor<float> q_, w_, b_, m_, readout_, readout_bias_;
};

double cross_entropy(const std::vector<double>& y, std::int32_t target) {
  double sum = 0;
  for (const double x : y) sum += std::exp(x);
  return std::log(sum) - y[static_cast<std::size_t>(target)];
}

bool names(const std::vector<double>& y, std::int32_t target) {
  return std::max_element(y.begin(), y.end()) - y.begin() == target;
}

/// Over all test data of a task, each target with the same weight.
Figures figures_of(const fs::path& model, const Task& task) {
  const PlainNetwork network(model);
  double loss = 0, targets = 0, right = 0, answers = 0;
  Batch batch;
  for (Index number = 0; number < task.evaluation_batches(HeldOut::test); ++number) {
    task.evaluation_batch(HeldOut::test, number, batch);
    const Index sequences =
        (batch.reals(batch_names::features).empty() ? batch.integers(batch_names::symbols).shape()
                                                    : batch.reals(batch_names::features).shape())[1];
    for (Index b = 0; b < sequences; ++b) {
      const auto y = network.outputs(batch, b);
      if (task.name() == "adding") {
        loss += std::pow(y.back()[0] - batch.reals(batch_names::values)(b, 0), 2);
        ++targets;
      } else if (task.name() == "mnist") {
        loss += cross_entropy(y.back(), batch.integers(batch_names::classes)(b));
        right += names(y.back(), batch.integers(batch_names::classes)(b));
        ++targets, ++answers;
      } else {
        for (std::size_t t = 0; t < y.size(); ++t) {
          const std::int32_t target = batch.integers(batch_names::classes)(static_cast<Index>(t), b);
          loss += cross_entropy(y[t], target);
          ++targets;
          // The ten symbols at the end are what is to be recalled.
          if (t + 10 < y.size()) continue;
          right += names(y[t], target);
          ++answers;
        }
      }
    }
  }
  return {.loss = loss / targets,
          .accuracy = right / answers,
          .orthogonality_error = network.orthogonality_error()};
}

}  // namespace

TEST_CASE("what eval prints is what a recurrence in double gives, for every task", "[cli][eval]") {
  const TemporaryFolder folder;
  write_tiny_mnist(folder / "data");
  struct Case {
    const char* name;
    Arguments task;
    double baseline;
  };
  const std::string data = folder / "data";
  const Case cases[] = {
      {"copying", {"copying", "--delay", "3", "--batch", "3"}, 10 * std::log(8.0) / 23},
      {"adding", {"adding", "--length", "9", "--batch", "3"}, 1.0 / 6},
      // Six test images in batches of four: the last one is smaller.
      {"ordered", {"mnist", "--data", data, "--batch", "4"}, std::log(10.0)},
      {"permuted", {"mnist", "--permuted", "--data", data, "--batch", "4"}, std::log(10.0)}};
  for (const Case& c : cases) {
    CAPTURE(c.name);
    const fs::path out = folder / c.name, model = out / "model.h5";
    check_success(run(Arguments{"train"} + c.task +
                      Arguments{"--cell", "free", "--lr-orth", "0.01", "--hidden", "7", "--steps", "12",
                                "--out", out.string()}));
    const Arguments data_option = c.task[0] == "mnist" ? Arguments{"--data", data} : Arguments{};
    const ProgramResult result = run(Arguments{"eval", model.string(), "--json"} + data_option);
    check_success(result);
    const Json json = Json::parse(result.output);

    const ModelFileInfo info = read_model_info(model);
    const auto task =
        make_task(info.task_config,
                  {.batch = info.batch, .seed = info.seed, .data = data, .input_order = info.permutation});
    const Figures expected = figures_of(model, *task);
    const char* loss = task->name() == "adding" ? "mean_squared_error" : "cross_entropy";
    // The program computes in float, over at most 23 steps of seven products.
    CHECK(json[loss].get<double>() == Approx(expected.loss).epsilon(1e-5));
    CHECK(json["baseline"].get<double>() == Approx(c.baseline).epsilon(1e-12));
    CHECK(json["orthogonality_error"].get<double>() == Approx(expected.orthogonality_error).epsilon(1e-5));
    CHECK(expected.orthogonality_error > 1e-3);  // steps of 0.01 have left the orthogonal matrices
    CHECK(json.contains("accuracy") == (task->name() != "adding"));
    if (json.contains("accuracy"))
      CHECK(json["accuracy"].get<double>() == Approx(expected.accuracy).epsilon(1e-12));
  }
}
