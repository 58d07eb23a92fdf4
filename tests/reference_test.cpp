// Files of inputs, outputs and gradients from an independent implementation, whatever their sizes, against
// everything that computes them. The folder is ORTHORNN_REFERENCE_DIR of the environment, else the one of the
// source tree.

#include <fmt/format.h>
#include <hdf5.h>

#include <Eigen/LU>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <iostream>
#include <map>

#include "linalg/eigen_map.hpp"
#include "orthornn/delta/delta_product.hpp"
#include "orthornn/delta/rank_one_chain.hpp"
#include "orthornn/io/hdf5.hpp"
#include "orthornn/layers/gru_layer.hpp"
#include "orthornn/layers/lstm_layer.hpp"
#include "orthornn/layers/orthogonal_layer.hpp"
#include "orthornn/orthogonal/truncated_cwy.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/gpu.hpp"
#include "support/layer_case.hpp"
#include "support/temporary_folder.hpp"
#include "support/tolerances.hpp"
#include "support/transitions.hpp"
#include "test_paths.hpp"

namespace orthornn::testing {
namespace {

namespace fs = std::filesystem;

template <class T>
Tensor<T> read(const Hdf5Reader& file, const std::string& name, Device device) {
  return file.read<T>(name).copy(device);
}

/// Text as h5py writes it, of variable length, which Hdf5Reader refuses from strangers; "" when there is
/// none.
std::string text_attribute(const Hdf5Reader& reader, const char* name) {
  if (!reader.has_attribute("/", name)) return "";
  const hid_t file = H5Fopen(reader.file().c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t attribute = H5Aopen(file, name, H5P_DEFAULT), type = H5Aget_type(attribute);
  std::string text(H5Tget_size(type), '\0');
  if (H5Tis_variable_str(type) > 0) {
    char* found = nullptr;
    H5Aread(attribute, type, &found);
    text = found;
    H5free_memory(found);
  } else {
    H5Aread(attribute, type, text.data());
  }
  H5Tclose(type);
  H5Aclose(attribute);
  H5Fclose(file);
  return text;
}

/// A dataset, or an empty tensor where the file has none.
template <class T>
Tensor<T> read_optional(const Hdf5Reader& file, const std::string& name, Device device) {
  return file.has(name) ? read<T>(file, name, device) : Tensor<T>({0}, device);
}

template <class T>
Tensor<T> on_host(TensorView<const T> x) {
  Tensor<T> result;
  result.reserve(x.shape());
  copy<T>(x, result);
  return result;
}

/// Compares with a dataset in double; both names are in the message.
template <class T>
void check_dataset(const Hdf5Reader& file, const std::string& name, TensorView<const T> found, double bound) {
  INFO(name);
  CHECK(relative_error(on_host(found), file.read<double>(name)) <= bound);
}

/// |S|_1 |S^-1|_1 over L, which is 1 to 10 for random vectors and measures how nearly parallel these are.
double condition_of_s_factor(const Tensor<double>& v) {
  Eigen::MatrixXd units = eigen(columns_of(v));
  units.colwise().normalize();
  Eigen::MatrixXd s = (units.transpose() * units).triangularView<Eigen::StrictlyUpper>();
  s.diagonal().setConstant(0.5);
  const Eigen::MatrixXd inverse = s.inverse();
  const auto norm = [](const Eigen::MatrixXd& m) { return m.cwiseAbs().colwise().sum().maxCoeff(); };
  return std::max(1.0, norm(s) * norm(inverse) / static_cast<double>(s.rows()));
}

struct Bounds {
  double states;
  double gradients;
};

template <class T>
Bounds bounds_of_rnn(const Hdf5Reader& file, Activation activation) {
  if (std::is_same_v<T, double>) return {tolerance::reference_double, tolerance::reference_double};
  const Shape shape = file.shape("x");
  const Index n = file.shape("V")[1];
  const double smooth =
      tolerance::reference_float(shape[0], n, condition_of_s_factor(file.read<double>("V")));
  const bool has_kinks = activation != Activation::tanh && activation != Activation::identity;
  const double gradients = has_kinks ? tolerance::with_kinks(smooth, shape[0] * shape[1] * n) : smooth;
  // modrelu jumps itself, where its bias is positive.
  return {activation == Activation::modrelu ? gradients : smooth, gradients};
}

/// A recurrence whose states are called `states` ("h", "c") in the file and whose parameters have these names
/// there.
template <class T>
void check_recurrence(const Hdf5Reader& file, Layer<T>& layer, ParameterSet<T>& parameters,
                      const std::map<std::string, std::string>& names, const std::vector<std::string>& states,
                      const Bounds& bounds, Device device) {
  const auto x = read<T>(file, "x", device);
  const auto lengths = read_optional<std::int32_t>(file, "lengths", device);
  const SequenceInput<T> input{.vectors = x, .lengths = lengths};
  std::vector<Tensor<T>> start, last, d_last, d_start;
  for (std::size_t i = 0; i < states.size(); ++i) {
    const Shape shape = layer.state_shape(static_cast<Index>(i), x.shape()[1]);
    if (file.has(states[i] + "0")) start.push_back(read<T>(file, states[i] + "0", device));
    if (file.has("d" + states[i] + "_last"))
      d_last.push_back(read<T>(file, "d" + states[i] + "_last", device));
    last.emplace_back(shape, device);
    d_start.emplace_back(shape, device);
  }
  for (const auto& [in_file, in_set] : names)
    copy<T>(file.read<T>(in_file), parameters.value(parameters.find("cell/" + in_set)));

  Saved saved(device), scratch(device);
  layer.prepare();
  const TensorView<const T> h = layer.forward(input, const_views_of(start), views_of(last), saved);
  check_dataset<T>(file, "h", h, bounds.states);
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (file.has(states[i] + "_last"))
      check_dataset<T>(file, states[i] + "_last", std::as_const(last[i]).view(), bounds.states);
  }
  Tensor<T> d_output = file.has("dh") ? read<T>(file, "dh", device) : Tensor<T>(h.shape(), device);
  Tensor<T> dx(x.shape(), device);
  layer.backward(
      input,
      {.d_output = d_output, .d_last = const_views_of(d_last), .d_input = dx, .d_start = views_of(d_start)},
      saved, scratch);
  for (const auto& [in_file, in_set] : names) {
    if (!file.has("grad/" + in_file)) continue;
    check_dataset<T>(file, "grad/" + in_file,
                     std::as_const(parameters).gradient(parameters.find("cell/" + in_set)), bounds.gradients);
  }
  check_dataset<T>(file, "grad/x", std::as_const(dx).view(), bounds.gradients);
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (file.has("grad/" + states[i] + "0"))
      check_dataset<T>(file, "grad/" + states[i] + "0", std::as_const(d_start[i]).view(), bounds.gradients);
  }
}

template <class T>
void check_orthogonal_rnn(const Hdf5Reader& file, const TransitionOptions& transition,
                          const Execution& execution) {
  const Activation activation = parse<Activation>(text_attribute(file, "activation"));
  const Bounds bounds = bounds_of_rnn<T>(file, activation);
  ParameterSet<T> parameters;
  OrthogonalLayer<T> layer(
      parameters, "cell",
      {.hidden_size = file.shape("V")[1], .transition = transition, .activation = activation},
      file.shape("x")[2], execution);
  parameters.allocate(execution.device);
  std::map<std::string, std::string> names = {
      {"V", "reflection_vectors"}, {"W", "input_weights"}, {"b", "bias"}};
  if (activation == Activation::modrelu) names["modrelu_bias"] = "modrelu_bias";
  check_recurrence<T>(file, layer, parameters, names, {"h"}, bounds, execution.device);
  check_dataset<T>(file, "Q", layer.transition().materialize(), bounds.states);
}

/// An LSTM or a GRU.
template <class T, class LayerOfKind, class Options>
void check_gated(const Hdf5Reader& file, const std::vector<std::string>& states, const Execution& execution) {
  const Shape x = file.shape("x"), weights = file.shape("weight_hh");
  const double bound = std::is_same_v<T, double> ? tolerance::reference_double
                                                 : tolerance::reference_float(x[0], weights[1], 1);
  ParameterSet<T> parameters;
  LayerOfKind layer(parameters, "cell", Options{.hidden_size = weights[1]}, x[2], execution);
  parameters.allocate(execution.device);
  check_recurrence<T>(file, layer, parameters,
                      {{"weight_ih", "input_weights"},
                       {"bias_ih", "input_bias"},
                       {"weight_hh", "recurrent_weights"},
                       {"bias_hh", "recurrent_bias"}},
                      states, {bound, bound}, execution.device);
}

void check_orthogonal_rnn(const Hdf5Reader& file, const Execution& execution) {
  for (const auto& [name, transition] : reflection_transitions(file.shape("V")[0])) {
    for (const int threads : {1, 2}) {
      INFO(name << ", " << threads << " thread(s)");
      set_thread_count(threads);
      {
        INFO("double");
        check_orthogonal_rnn<double>(file, transition, execution);
      }
      {
        INFO("float");
        check_orthogonal_rnn<float>(file, transition, execution);
      }
    }
  }
  set_thread_count(1);
}

template <class T>
void check_stiefel(const Hdf5Reader& file, Device device) {
  const auto v = read<T>(file, "V", device);
  const Index n = v.shape()[1];
  const double bound = std::is_same_v<T, double>
                           ? tolerance::reference_double
                           : tolerance::reference_float(0, n, condition_of_s_factor(file.read<double>("V")));
  TruncatedCwy<T> stiefel(n, v.shape()[0], device);
  stiefel.prepare(v);
  check_dataset<T>(file, "Omega", stiefel.omega(), bound);
  Tensor<T> dv(v.shape(), device);
  stiefel.backward(read<T>(file, "dOmega", device), dv);
  check_dataset<T>(file, "grad/V", dv, bound);
}

/// Q = Q0 diag(signs) for the transition's Q0.
template <class T>
void check_skew(const Hdf5Reader& file, const TransitionOptions& options, const Tensor<double>& signs,
                Device device) {
  const auto x = file.read<T>("X");
  const Index n = x.shape()[0];
  // The error of exp(A) and of (I + A)^-1 is relative to |A|.
  const double bound = std::is_same_v<T, double> ? tolerance::reference_double
                                                 : tolerance::reference_float(0, n, 2 + frobenius_norm(x));
  const auto transition = prepare<T>(options, x.copy(device));
  const auto flip_columns = [&](Tensor<T> q) {
    for (Index i = 0; i < n; ++i) {
      for (Index j = 0; j < n; ++j) q(i, j) *= static_cast<T>(signs(j));
    }
    return q;
  };
  check_dataset<T>(file, "Q", flip_columns(transition->materialize().copy(Device::cpu())), bound);
  Tensor<T> dx(x.shape(), device);
  transition->backward(flip_columns(file.read<T>("dQ")).copy(device), dx);
  check_dataset<T>(file, "grad/X", dx, bound);
}

Tensor<double> ones(Index n) {
  Tensor<double> result({n});
  std::fill(result.begin(), result.end(), 1.0);
  return result;
}

void check_exponential(const Hdf5Reader& file, Device device) {
  const Tensor<double> signs = ones(file.shape("X")[0]);
  check_skew<double>(file, MatrixExponential{}, signs, device);
  check_skew<float>(file, MatrixExponential{}, signs, device);
}

void check_cayley(const Hdf5Reader& file, Device device) {
  const auto d = file.read<double>("D");
  // The library's D has its negative signs first; any other D is a flip of columns outside it.
  const auto flip = [&] {
    check_skew<double>(file, ScaledCayley{.negative_signs = 0}, d, device);
    check_skew<float>(file, ScaledCayley{.negative_signs = 0}, d, device);
  };
  flip();
  const auto first_positive = std::find(d.begin(), d.end(), 1.0);
  if (std::find(first_positive, d.end(), -1.0) != d.end()) return;
  const Index negative = first_positive - d.begin();
  check_skew<double>(file, ScaledCayley{.negative_signs = negative}, ones(d.size()), device);
  check_skew<float>(file, ScaledCayley{.negative_signs = negative}, ones(d.size()), device);
}

/// Both forms, on the CPU.
template <class T>
void check_delta_product(const Hdf5Reader& file) {
  const auto device = Device::cpu();
  const auto q = read<T>(file, "q", device), k = read<T>(file, "k", device), v = read<T>(file, "v", device),
             beta = read<T>(file, "beta", device), start = read<T>(file, "S0", device),
             log_decay = read_optional<T>(file, "log_decay", device), d_output = read<T>(file, "do", device),
             d_last = read<T>(file, "dST", device);
  const Shape keys = k.shape();
  const Index batch = keys[0], length = keys[1], rows = batch * length;
  // [B, T, ..] to [R, ..].
  const auto by_rows = [&](const Tensor<T>& x) {
    Shape shape{rows};
    for (int i = 2; i < x.shape().rank(); ++i) shape.append(x.shape()[i]);
    return x.view().reshaped(shape);
  };
  DeltaProductInput<T> input{.queries = by_rows(q),
                             .keys = by_rows(k),
                             .values = by_rows(v),
                             .betas = by_rows(beta),
                             .initial_states = start};
  if (!log_decay.empty()) input.log_decays = by_rows(log_decay);
  // Factors of unit keys with beta up to 2 enlarge no error, so those of all factors add up.
  const double bound = std::is_same_v<T, double> ? tolerance::reference_double
                                                 : tolerance::reference_float(length * keys[2], keys[4], 1);
  for (const DeltaForm form : {DeltaForm::recurrent, DeltaForm::chunked}) {
    INFO(name_of(form));
    DeltaProductOptions options{.form = form, .scale = file.double_attribute("/", "scale"), .chunk = 16};
    const TokenLayout layout = TokenLayout::sequence_major(batch, length);
    Tensor<T> output(d_output.shape()), last(start.shape()), dq(q.shape()), dk(k.shape()), dv(v.shape()),
        d_beta(beta.shape()), d_log_decay(log_decay.shape()), d_start(start.shape());
    const auto rows_of = [&](Tensor<T>& x) {
      const TensorView<const T> shaped = by_rows(x);
      return x.view().reshaped(shaped.shape());
    };
    Saved saved(device);
    delta_product_forward<T>(input, layout, options, rows_of(output), last, saved);
    check_dataset<T>(file, "o", output, bound);
    check_dataset<T>(file, "ST", last, bound);
    DeltaProductGradients<T> gradients{.d_outputs = by_rows(d_output),
                                       .d_final_states = d_last,
                                       .d_queries = rows_of(dq),
                                       .d_keys = rows_of(dk),
                                       .d_values = rows_of(dv),
                                       .d_betas = rows_of(d_beta),
                                       .d_initial_states = d_start};
    if (!log_decay.empty()) gradients.d_log_decays = rows_of(d_log_decay);
    delta_product_backward<T>(input, layout, options, gradients, saved);
    check_dataset<T>(file, "grad/q", dq, bound);
    check_dataset<T>(file, "grad/k", dk, bound);
    check_dataset<T>(file, "grad/v", dv, bound);
    check_dataset<T>(file, "grad/beta", d_beta, bound);
    check_dataset<T>(file, "grad/S0", d_start, bound);
    if (!log_decay.empty()) check_dataset<T>(file, "grad/log_decay", d_log_decay, bound);
  }
}

template <class T>
void check_rank_one_chain(const Hdf5Reader& file) {
  const auto device = Device::cpu();
  const auto q = read<T>(file, "q", device), k = read<T>(file, "k", device),
             alpha = read<T>(file, "alpha", device), beta = read<T>(file, "beta", device),
             start = read<T>(file, "s0", device), d_output = read<T>(file, "du", device),
             d_last = read<T>(file, "ds", device);
  const Index n = q.shape()[0], size = q.shape()[1], columns = start.shape()[1];
  const auto one_head = [](const Tensor<T>& x, const Shape& shape) { return x.view().reshaped(shape); };
  const RankOneChainInput<T> input{.left = one_head(q, {n, 1, size}),
                                   .right = one_head(k, {n, 1, size}),
                                   .left_scales = one_head(alpha, {n, 1}),
                                   .right_scales = one_head(beta, {n, 1}),
                                   .initial_states = one_head(start, {1, 1, size, columns})};
  const TokenLayout layout = TokenLayout::sequence_major(1, n);
  Tensor<T> output({n, 1, columns}), last({1, 1, size, columns}), inverse({1, 1, size, size}),
      dq({n, 1, size}), dk({n, 1, size}), d_alpha({n, 1}), d_beta({n, 1}), d_start(last.shape());
  Saved saved(device);
  for (const Index chunk : {4, 64}) {
    rank_one_chain_forward<T>(input, layout, {.chunk = chunk}, output, last, saved);
    rank_one_chain_backward<T>(input, layout, {.chunk = chunk},
                               {.d_outputs = one_head(d_output, output.shape()),
                                .d_final_states = one_head(d_last, last.shape()),
                                .d_left = dq,
                                .d_right = dk,
                                .d_left_scales = d_alpha,
                                .d_right_scales = d_beta,
                                .d_initial_states = d_start},
                               saved);
    rank_one_chain_inverse<T>(input, layout, {.chunk = chunk}, inverse, saved);
    // Factors are not orthogonal: an error may grow as the product of them does, which the inverse shows.
    const auto norm_of_inverse = frobenius_norm(file.read<double>("inverse"));
    const double bound = std::is_same_v<T, double> ? tolerance::reference_double
                                                   : tolerance::reference_float(n, size, 1 + norm_of_inverse);
    const auto compare = [&](const std::string& name, const Tensor<T>& found) {
      check_dataset<T>(file, name, found.view().reshaped(file.shape(name)), bound);
    };
    compare("u", output);
    compare("s", last);
    compare("inverse", inverse);
    compare("grad/q", dq);
    compare("grad/k", dk);
    compare("grad/alpha", d_alpha);
    compare("grad/beta", d_beta);
    compare("grad/s0", d_start);
  }
}

/// False for a kind that nothing here computes.
bool check_file(const fs::path& path, const Execution& execution = {}) {
  const Device device = execution.device;
  std::map<std::string, std::function<void(const Hdf5Reader&)>> checks = {
      {"orthogonal_rnn", [&](const Hdf5Reader& file) { check_orthogonal_rnn(file, execution); }},
      {"lstm",
       [&](const Hdf5Reader& file) {
         check_gated<double, LstmLayer<double>, Lstm>(file, {"h", "c"}, execution);
         check_gated<float, LstmLayer<float>, Lstm>(file, {"h", "c"}, execution);
       }},
      {"gru",
       [&](const Hdf5Reader& file) {
         check_gated<double, GruLayer<double>, Gru>(file, {"h"}, execution);
         check_gated<float, GruLayer<float>, Gru>(file, {"h"}, execution);
       }},
      {"stiefel",
       [&](const Hdf5Reader& file) {
         check_stiefel<double>(file, device);
         check_stiefel<float>(file, device);
       }},
      {"skew_expm", [&](const Hdf5Reader& file) { check_exponential(file, device); }},
      {"skew_cayley", [&](const Hdf5Reader& file) { check_cayley(file, device); }}};
  if (!device.is_cuda()) {
    checks["rank_one_chain"] = [](const Hdf5Reader& found) {
      check_rank_one_chain<double>(found);
      check_rank_one_chain<float>(found);
    };
    checks["delta_product"] = [](const Hdf5Reader& found) {
      check_delta_product<double>(found);
      check_delta_product<float>(found);
    };
  }
  const Hdf5Reader file(path);
  const std::string kind = text_attribute(file, "kind");
  if (kind.empty()) throw FileError(fmt::format("'{}' has no attribute 'kind'", path.string()));
  const auto check = checks.find(kind);
  if (check == checks.end()) {
    std::cout << "skipped " << path.filename().string() << ": nothing computes the kind '" << kind << "' on "
              << to_string(device) << " yet\n";
    return false;
  }
  check->second(file);
  return true;
}

fs::path reference_folder() {
  const char* chosen = std::getenv("ORTHORNN_REFERENCE_DIR");
  return chosen != nullptr && *chosen != '\0' ? chosen : ORTHORNN_DEFAULT_REFERENCE_DIR;
}

std::vector<fs::path> reference_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".h5") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

TEST_CASE("every reference file is met by everything that computes it", "[reference]") {
  const std::vector<fs::path> files = reference_files(reference_folder());
  CAPTURE(reference_folder().string());
  REQUIRE_FALSE(files.empty());
  for (const fs::path& path : files) {
    DYNAMIC_SECTION(path.filename().string()) {
      check_file(path);
      SUCCEED();
    }
  }
}

TEST_CASE("every reference file is met on a GPU", "[reference][cuda]") {
  const auto device = gpu();
  if (!device) return;
  for (const fs::path& path : reference_files(reference_folder())) {
    DYNAMIC_SECTION(path.filename().string()) {
      check_file(path, *device);
      check_file(path, {*device, Precision::fp32, RolloutWay::stepwise});
      SUCCEED();
    }
  }
}

TEST_CASE("a reference file of an unknown kind is skipped and an unreadable one is an error", "[reference]") {
  const TemporaryFolder folder;
  Hdf5Writer writer;
  writer.attribute("/", "kind", "something new");
  writer.commit(folder / "new.h5");
  CHECK_FALSE(check_file(folder / "new.h5"));

  Hdf5Writer without_kind;
  without_kind.group("grad");
  without_kind.commit(folder / "without_kind.h5");
  CHECK_THROWS_AS(check_file(folder / "without_kind.h5"), FileError);
  CHECK_THROWS_AS(check_file(folder / "absent.h5"), FileError);
}

}  // namespace
}  // namespace orthornn::testing
