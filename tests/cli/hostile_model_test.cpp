// Model files that a stranger made to hurt: each is refused with its reason by every command that reads it,
// in little memory and time. Their checksums are right.

#include <fmt/format.h>
#include <sys/resource.h>

#include <functional>
#include <initializer_list>
#include <limits>

#include "cli/model_content.hpp"
#include "cli/run_program.hpp"
#include "cli/tiny_mnist.hpp"
#include "orthornn/train/model_file.hpp"
#include "support/hdf5_edit.hpp"

namespace fs = std::filesystem;
using namespace orthornn;
using namespace orthornn::testing;

namespace {

constexpr const char* bias = "parameters/cell/bias";

struct HostileFile {
  const char* name;
  std::function<void(const Hdf5Edit&)> change;
  /// What the refusal says.
  std::vector<std::string> words;
};

hid_t chunked(hsize_t size) {
  const hid_t properties = Hdf5Edit::ok(H5Pcreate(H5P_DATASET_CREATE));
  Hdf5Edit::ok(H5Pset_chunk(properties, 1, &size));
  return properties;
}

const float eight[8] = {};

/// A model of 8 hidden units that was trained on copying over 3 steps.
const HostileFile of_copying[] = {
    {"a checksum of 512 numbers",
     [](const Hdf5Edit& file) {
       const std::vector<std::int64_t> many(512, 0x4141414141414141);
       file.attribute(bias, "crc32", H5T_STD_I64LE, {512}, many.data());
     },
     {"'parameters/cell/bias'", "'crc32'", "expected one value, found 512"}},
    {"a checksum of another kind",
     [](const Hdf5Edit& file) { file.text(bias, "crc32", "12"); },
     {"'crc32'", "expected integers, found text"}},
    {"a bias in another file",
     [](const Hdf5Edit& file) {
       const hid_t properties = Hdf5Edit::ok(H5Pcreate(H5P_DATASET_CREATE));
       Hdf5Edit::ok(H5Pset_external(properties, "/proc/self/exe", 0, 32));
       file.dataset(bias, H5T_IEEE_F32LE, {8}, properties, nullptr);
     },
     {"'parameters/cell/bias'", "its numbers lie in other files"}},
    {"a virtual bias",
     [](const Hdf5Edit& file) {
       const hid_t properties = Hdf5Edit::ok(H5Pcreate(H5P_DATASET_CREATE));
       const hid_t space = Hdf5Edit::dataspace({8});
       Hdf5Edit::ok(H5Pset_virtual(properties, space, "/tmp/other.h5", "bias", space));
       file.dataset(bias, H5T_IEEE_F32LE, {8}, properties, nullptr);
     },
     {"'parameters/cell/bias'", "its numbers lie in other files"}},
    {"a soft link",
     [](const Hdf5Edit& file) {
       file.remove(bias);
       Hdf5Edit::ok(
           H5Lcreate_soft("/parameters/cell/modrelu_bias", file.file(), bias, H5P_DEFAULT, H5P_DEFAULT));
     },
     {"'parameters/cell/bias'", "'bias' is a link to somewhere else"}},
    {"an external link to a group",
     [](const Hdf5Edit& file) {
       file.remove("parameters");
       Hdf5Edit::ok(H5Lcreate_external("/tmp/other.h5", "/parameters", file.file(), "parameters", H5P_DEFAULT,
                                       H5P_DEFAULT));
     },
     {"'parameters' is a link to somewhere else"}},
    {"a compressed bias",
     [](const Hdf5Edit& file) {
       const hid_t properties = chunked(8);
       Hdf5Edit::ok(H5Pset_deflate(properties, 9));
       file.dataset(bias, H5T_IEEE_F32LE, {8}, properties, eight);
     },
     {"'parameters/cell/bias'", "filter 1", "without compression"}},
    {"a sparse bias",
     [](const Hdf5Edit& file) { file.dataset(bias, H5T_IEEE_F32LE, {8}, chunked(8), nullptr); },
     {"'parameters/cell/bias'", "no number of it was ever written"}},
    {"a sparse bias of two exabytes",
     [](const Hdf5Edit& file) {
       file.dataset(bias, H5T_IEEE_F32LE, {hsize_t{1} << 59}, chunked(1024), nullptr);
     },
     {"'parameters/cell/bias'", "no number of it was ever written"}},
    {"a bias in chunks of one number",
     [](const Hdf5Edit& file) {
       const std::vector<float> numbers(20000);
       file.dataset(bias, H5T_IEEE_F32LE, {20000}, chunked(1), numbers.data());
     },
     {"'parameters/cell/bias'", "it lies in 20000 chunks of 4 bytes; expected at most 16384"}},
    {"a group behind a filter",
     [](const Hdf5Edit& file) {
       file.remove("parameters");
       const hid_t properties = Hdf5Edit::ok(H5Pcreate(H5P_GROUP_CREATE));
       Hdf5Edit::ok(H5Pset_deflate(properties, 9));
       Hdf5Edit::ok(H5Gclose(
           Hdf5Edit::ok(H5Gcreate2(file.file(), "parameters", H5P_DEFAULT, properties, H5P_DEFAULT))));
     },
     {"the group that holds 'cell' is stored through a filter"}},
    {"a bias of integers",
     [](const Hdf5Edit& file) {
       const std::int32_t numbers[8] = {};
       file.dataset(bias, H5T_STD_I32LE, {8}, H5P_DEFAULT, numbers);
     },
     {"'parameters/cell/bias'",
      "expected 32-bit floating-point numbers of shape [8], found 32-bit integers"}},
    {"a bias of doubles",
     [](const Hdf5Edit& file) {
       const double numbers[8] = {};
       file.dataset(bias, H5T_IEEE_F64LE, {8}, H5P_DEFAULT, numbers);
     },
     {"'parameters/cell/bias'", "found 64-bit floating-point numbers"}},
    {"a bias of odd numbers",
     [](const Hdf5Edit& file) {
       const hid_t odd = Hdf5Edit::ok(H5Tcopy(H5T_IEEE_F32LE));
       Hdf5Edit::ok(H5Tset_ebias(odd, 3));
       file.dataset(bias, odd, {8}, H5P_DEFAULT, eight);
     },
     {"'parameters/cell/bias'", "unusual 32-bit floating-point numbers"}},
    {"a bias of another shape",
     [](const Hdf5Edit& file) {
       file.dataset(bias, H5T_IEEE_F32LE, {2, 4}, H5P_DEFAULT, eight);
     },
     {"'parameters/cell/bias'", "of shape [8], found", "of shape [2, 4]"}},
    {"a hidden size that no file could hold",
     [](const Hdf5Edit& file) {
       file.replace_in_text("/", "config", "\"hidden_size\":8", "\"hidden_size\":100000000");
     },
     {"its config describes parameters of", "expected fewer than the file's"}},
    {"more numbers than 63 bits count",
     [](const Hdf5Edit& file) {
       file.replace_in_text("/", "config", "\"hidden_size\":8", "\"hidden_size\":4611686018427387904");
     },
     {"model.h5", "2^63"}},
    {"a size of 1e30",
     [](const Hdf5Edit& file) {
       file.replace_in_text("/", "config", "\"hidden_size\":8", "\"hidden_size\":1e30");
     },
     {"'config'", "'hidden_size' is 1e+30; expected a whole number"}},
    {"a size of true",
     [](const Hdf5Edit& file) { file.replace_in_text("/", "config", "\"symbols\":10", "\"symbols\":true"); },
     {"'config'", "'symbols' is true; expected a whole number"}},
    {"a layer of another program",
     [](const Hdf5Edit& file) {
       file.replace_in_text("/", "config", R"("kind":"orthogonal")", R"("kind":"scale")");
     },
     {R"('kind' is "scale"; expected orthogonal, lstm)", "a program registers kinds of its own"}},
    {"a transition of another program",
     [](const Hdf5Edit& file) {
       file.replace_in_text("/", "config", R"({"kind":"cwy")", R"({"kind":"turns")");
     },
     {R"('kind' is "turns"; expected cwy)", "a program registers kinds of its own"}},
    {"a negative size",
     [](const Hdf5Edit& file) { file.replace_in_text("/", "config", "\"outputs\":9", "\"outputs\":-9"); },
     {"'outputs' is -9; expected a whole number, at least 1"}},
    {"cells without end",
     [](const Hdf5Edit& file) {
       std::string cells;
       for (int i = 0; i < 430; ++i)
         cells +=
             R"({"kind":"orthogonal","hidden_size":8,"transition":{"kind":"expm","init":"haar"},"activation":"abs","input_matrix":"free"},)";
       file.replace_in_text("/", "config", "\"cells\":[", "\"cells\":[" + cells);
     },
     {"its config describes parameters of"}},
    {"JSON of 20,000 levels",
     [](const Hdf5Edit& file) {
       file.text("/", "config", std::string(20000, '[') + std::string(20000, ']'));
     },
     {"'config'", "nested too deeply"}},
    {"a config of variable length",
     [](const Hdf5Edit& file) {
       const hid_t type = Hdf5Edit::ok(H5Tcopy(H5T_C_S1));
       Hdf5Edit::ok(H5Tset_size(type, H5T_VARIABLE));
       const char* text = "{}";
       file.attribute("/", "config", type, {}, &text);
     },
     {"'config'", "found text of variable length"}},
    {"a delay near 2^62",
     [](const Hdf5Edit& file) {
       file.replace_in_text("/", "config", "\"delay\":3", "\"delay\":4611686018427387948");
     },
     {"4611686018427387948 steps, expected at most 2147483647"}},
    {"a delay near 2^63",
     [](const Hdf5Edit& file) {
       file.replace_in_text("/", "config", "\"delay\":3", "\"delay\":9223372036854775807");
     },
     {"9223372036854775807 steps, expected at most 2147483647"}},
    {"a batch of 2^40",
     [](const Hdf5Edit& file) {
       file.replace_in_text("/", "config", "\"batch\":4", "\"batch\":1099511627776");
     },
     {"expected at most 2147483647"}},
    {"a negative step",
     [](const Hdf5Edit& file) {
       const std::int64_t step = -1;
       file.attribute("training", "step", H5T_STD_I64LE, {}, &step);
     },
     {"'step'", "is -1; expected 0 to 2^53"}},
    {"a step of 2^63 - 1",
     [](const Hdf5Edit& file) {
       const std::int64_t step = std::numeric_limits<std::int64_t>::max();
       file.attribute("training", "step", H5T_STD_I64LE, {}, &step);
     },
     {"'step'", "is 9223372036854775807; expected 0 to 2^53"}},
    {"another seed than the config's",
     [](const Hdf5Edit& file) {
       const std::int64_t seed = 2;
       file.attribute("training", "seed", H5T_STD_I64LE, {}, &seed);
     },
     {"'seed' of 'training' is not 1"}},
    {"a training without its options",
     [](const Hdf5Edit& file) { file.replace_in_text("/", "config", "\"training\"", "\"trainings\""); },
     {"its config names no task or no training"}},
    {"a step beyond int64",
     [](const Hdf5Edit& file) {
       const std::uint64_t step = ~std::uint64_t{0};
       file.attribute("training", "step", H5T_STD_U64LE, {}, &step);
     },
     {"'step'", "does not fit in an int64"}},
    {"a version that would speak to the terminal",
     [](const Hdf5Edit& file) { file.text("/", "library_version", "\033]0;owned\007"); },
     {"library version", "printable"}},
    {"another task than the config's",
     [](const Hdf5Edit& file) { file.text("/", "task", "adding"); },
     {"its task is \"copying\", the attribute 'task' says 'adding'"}},
};

/// Limits the program to a gigabyte of memory; the sanitizers need address space of their own.
RunSettings in_little_memory() {
#ifdef __SANITIZE_ADDRESS__
  return {};
#else
  return {.largest_memory = rlim_t{1} << 30};
#endif
}

/// The model lies in a run directory as model.h5, the input beside that directory.
void check_all_refuse(const fs::path& model, const fs::path& input, const std::vector<std::string>& words) {
  const std::string output = (input.parent_path() / "out.h5").string();
  // Resuming compares the model with the training's own options too, and may find another reason first.
  check_refused(run({"train", "--resume", "--steps", "3", "--out", model.parent_path().string()}), 1,
                {"model.h5"});
  for (const Arguments& arguments : {Arguments{"inspect", model.string()}, Arguments{"eval", model.string()},
                                     Arguments{"predict", model.string(), input.string(), "-o", output}}) {
    CAPTURE(arguments);
    const ProgramResult result = run(arguments, in_little_memory());
    check_refused(result, 1, {model.filename().string()});
    for (const std::string& word : words) CHECK_THAT(result.errors, contains(word));
    CHECK(result.output == "");
  }
  CHECK_FALSE(fs::exists(output));
}

}  // namespace

TEST_CASE("a hostile model file is refused with its reason by every command", "[cli][hostile][long]") {
  const TemporaryFolder folder;
  check_success(run(train_copying(folder / "run", {"--steps", "1"})));
  const fs::path model = folder / "run/model.h5", sound = folder / "sound.h5";
  fs::copy_file(model, sound);
  Hdf5Writer input;
  input.dataset("x", Tensor<std::int32_t>(Shape{3, 2}));
  input.commit(folder / "in.h5");
  for (const HostileFile& hostile : of_copying) {
    CAPTURE(hostile.name);
    fs::copy_file(sound, model, fs::copy_options::overwrite_existing);
    hostile.change(Hdf5Edit(model));
    check_all_refuse(model, folder / "in.h5", hostile.words);
  }
}

TEST_CASE("a hostile state of the optimizer is refused when the training goes on", "[cli][hostile]") {
  const HostileFile of_the_optimizer[] = {
      {"steps of 2^63 - 1",
       [](const Hdf5Edit& file) {
         const std::int64_t steps = std::numeric_limits<std::int64_t>::max();
         file.attribute("optimizer", "steps", H5T_STD_I64LE, {}, &steps);
       },
       {"'steps' of 'optimizer'", "expected 0 to 2^53"}},
      {"a moment in another file",
       [](const Hdf5Edit& file) {
         const hid_t properties = Hdf5Edit::ok(H5Pcreate(H5P_DATASET_CREATE));
         Hdf5Edit::ok(H5Pset_external(properties, "/proc/self/exe", 0, 32));
         file.dataset("optimizer/square_average/cell/bias", H5T_IEEE_F32LE, {8}, properties, nullptr);
       },
       {"'optimizer/square_average/cell/bias'", "its numbers lie in other files"}},
      {"a moment of another shape",
       [](const Hdf5Edit& file) {
         file.dataset("optimizer/square_average/cell/bias", H5T_IEEE_F32LE, {2, 4}, H5P_DEFAULT, eight);
       },
       {"'optimizer/square_average/cell/bias'", "of shape [8], found", "of shape [2, 4]"}},
      {"no moments",
       [](const Hdf5Edit& file) { file.remove("optimizer/square_average"); },
       {"'optimizer/square_average/cell/reflection_vectors'", "there is no such object"}},
  };
  const TemporaryFolder folder;
  check_success(run(train_copying(folder / "run", {"--steps", "1"})));
  const fs::path model = folder / "run/model.h5", sound = folder / "sound.h5";
  fs::copy_file(model, sound);
  for (const HostileFile& hostile : of_the_optimizer) {
    CAPTURE(hostile.name);
    fs::copy_file(sound, model, fs::copy_options::overwrite_existing);
    hostile.change(Hdf5Edit(model));
    const std::string before = content(model);
    const ProgramResult result =
        run({"train", "--resume", "--steps", "3", "--out", (folder / "run").string()});
    check_refused(result, 1, {"model.h5"});
    for (const std::string& word : hostile.words) CHECK_THAT(result.errors, contains(word));
    CHECK((content(model) == before));
  }
}

TEST_CASE("parameters that are one dataset under many names are refused", "[cli][hostile]") {
  const TemporaryFolder folder;
  const fs::path model = folder / "run/model.h5";
  check_success(run(train_copying(folder / "run", {"--steps", "1", "--layers", "2"})));
  {
    const Hdf5Edit file(model);
    // A hundred cells in the config; in the file the second one under many names.
    const std::string config = file.text_of("/", "config"), opening = "\"cells\":[";
    const std::size_t first = config.find(opening) + opening.size(), comma = config.find("},{", first) + 2;
    std::string cells;
    for (int i = 2; i < 100; ++i) {
      cells += config.substr(first, comma - first);
      Hdf5Edit::ok(H5Lcreate_hard(file.file(), "parameters/cell1", file.file(),
                                  fmt::format("parameters/cell{}", i).c_str(), H5P_DEFAULT, H5P_DEFAULT));
    }
    file.replace_in_text("/", "config", opening, opening + cells);
  }
  for (const char* command : {"inspect", "eval"})
    check_refused(run({command, model.string()}), 1, {"model.h5", "its config describes parameters of"});
}

TEST_CASE("a run directory with links is refused before anything is written", "[cli][hostile]") {
  for (const char* name : {"metrics.csv", "config.toml", "model.h5"}) {
    CAPTURE(name);
    const TemporaryFolder folder;
    check_success(run(train_copying(folder / "run", {"--steps", "1"})));
    const fs::path link = folder / "run" / name, victim = folder / "victim";
    fs::copy_file(link, victim);
    const std::string before = content(victim);
    fs::remove(link);
    fs::create_symlink(victim, link);
    check_refused(run({"train", "--resume", "--steps", "2", "--out", (folder / "run").string()}), 1,
                  {link.string(), "is a link"});
    CHECK((content(victim) == before));
  }
}

TEST_CASE("what a terminal would obey does not reach it from a file", "[cli][hostile]") {
  const TemporaryFolder folder;
  check_success(run(train_copying(folder / "run", {"--steps", "1"})));
  const fs::path model = folder / "run/model.h5";
  // CSI as a C1 control in UTF-8, an override of the direction of writing, DEL, and a byte that is no UTF-8.
  const std::string obeyed =
      "\xc2\x9b"
      "31m\xe2\x80\xae\x7f";
  const fs::path named = folder / ("a" + obeyed +
                                   "\x9b"
                                   "b.h5");
  fs::copy_file(model, named);
  const ProgramResult sound = run({"inspect", named.string()});
  check_success(sound);
  CHECK_THAT(sound.output, contains("a 31m   b.h5"));
  Hdf5Edit(model).replace_in_text("/", "config", "\"modrelu\"", "\"" + obeyed + "\"");
  const ProgramResult refused = run({"inspect", model.string()});
  check_refused(refused, 1, {R"('activation' is "\u009b31m\u202e\u007f"; expected tanh)"});
}

TEST_CASE("a hostile order of the pixels is refused by every command", "[cli][hostile][long]") {
  const TemporaryFolder folder;
  write_tiny_mnist(folder / "data");
  check_success(run(train_mnist(folder / "data", folder / "run", {"--permuted", "--steps", "1"})));
  const fs::path model = folder / "run/model.h5";
  Hdf5Writer input;
  input.dataset("x", Tensor<float>(Shape{12, 2, 1}));
  input.commit(folder / "in.h5");
  const auto check = [&](const std::vector<std::int32_t>& order, const Hdf5Edit::Sizes& sizes) {
    Hdf5Edit(model).dataset("task/permutation", H5T_STD_I32LE, sizes, H5P_DEFAULT, order.data());
    check_all_refuse(model, folder / "in.h5", {"'task/permutation'", "is not a permutation"});
  };
  check({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1000000}, {12});
  check({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, -1}, {12});
  check({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10}, {12});
  check({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {3, 4});
  Hdf5Edit(model).remove("task/permutation");
  check_all_refuse(model, folder / "in.h5", {"there is no dataset 'task/permutation'"});
}

TEST_CASE("a hostile input of predict is refused with its reason", "[cli][hostile]") {
  const TemporaryFolder folder;
  check_success(run(train_copying(folder / "run", {"--steps", "1"})));
  const std::string model = folder / "run/model.h5", input = folder / "in.h5", output = folder / "out.h5";
  const auto refused = [&](const char* path, hid_t type, const Hdf5Edit::Sizes& sizes, hid_t properties,
                           const void* data, std::initializer_list<std::string> words) {
    Hdf5Writer writer;
    writer.dataset("x", Tensor<std::int32_t>(Shape{3, 2}));
    writer.commit(input);
    Hdf5Edit(input).dataset(path, type, sizes, properties, data);
    const ProgramResult result = run({"predict", model, input, "-o", output}, in_little_memory());
    check_refused(result, 1, {input});
    check_refused(result, 1, words);
    CHECK_FALSE(fs::exists(output));
  };
  const auto with = [](const auto& set) {
    const hid_t properties = Hdf5Edit::ok(H5Pcreate(H5P_DATASET_CREATE));
    Hdf5Edit::ok(set(properties));
    return properties;
  };
  const hsize_t chunk[] = {1, 1 << 20};
  const hid_t sparse = with([&](hid_t properties) { return H5Pset_chunk(properties, 2, chunk); });
  const hid_t packed = with([&](hid_t properties) { return H5Pset_chunk(properties, 2, chunk); });
  Hdf5Edit::ok(H5Pset_deflate(packed, 9));
  const hid_t elsewhere =
      with([](hid_t properties) { return H5Pset_external(properties, "/proc/self/exe", 0, 24); });
  const hsize_t many = hsize_t{1} << 30;
  const std::int32_t symbols[6] = {};

  refused("x", H5T_STD_I32LE, {many, 1 << 20}, sparse, nullptr, {"'x'", "no number of it was ever written"});
  refused("x", H5T_STD_I32LE, {hsize_t{1} << 33, hsize_t{1} << 33}, sparse, nullptr,
          {"'x'", "larger than any memory"});
  refused("x", H5T_STD_I32LE, {many, 1 << 20}, packed, nullptr, {"'x'", "filter 1"});
  refused("x", H5T_STD_I32LE, {3, 2}, elsewhere, nullptr, {"'x'", "other files"});
  refused("x", H5T_STD_B32LE, {3, 2}, H5P_DEFAULT, symbols, {"'x'", "found bit fields"});
  refused("lengths", H5T_STD_I32LE, {many}, with([&](hid_t p) { return H5Pset_chunk(p, 1, chunk + 1); }),
          nullptr, {"'lengths'", "no number of it was ever written"});
  refused("lengths", H5T_STD_I32LE, {2}, elsewhere, nullptr, {"'lengths'", "other files"});
}

TEST_CASE("a few reflection vectors do not make a load form a huge Q, and a load draws none",
          "[cli][hostile]") {
  const TemporaryFolder folder;
  // To draw Henaff's angles takes N x N numbers, 29 GB.
  const ModelOptions options{OneHot{1},
                             {OrthogonalCell{.hidden_size = 60000,
                                             .transition = Cwy{1, Init::henaff, ReflectionForm::factored},
                                             .activation = Activation::tanh}},
                             LastStep{1}};
  SequenceModel<float> model(Device::cpu(), options, Undrawn{});
  std::fill(model.parameters().values().begin(), model.parameters().values().end(), 1.0F);
  const fs::path file = folder / "model.h5";
  save_model(file, model);
  for (const char* form : {"factored", "dense"}) {
    CAPTURE(form);
    Hdf5Edit(file).replace_in_text("/", "config", "factored", form);
    const ProgramResult result = run({"inspect", file.string()}, in_little_memory());
    check_success(result);
    CHECK_THAT(result.output, contains("cwy, factored form") && contains("not computed"));
  }
}

TEST_CASE("inspect does not compute a large orthonormal matrix", "[cli][hostile]") {
  const TemporaryFolder folder;
  // The largest that is computed has 2048 outputs.
  const ModelOptions options{DenseInput{2049}, {OrthogonalLinear{.outputs = 2049}}, EveryStep{1}};
  SequenceModel<float> model(Device::cpu(), options, Undrawn{});
  std::fill(model.parameters().values().begin(), model.parameters().values().end(), 1.0F);
  save_model(folder / "model.h5", model);
  const ProgramResult result = run({"inspect", (folder / "model.h5").string()});
  check_success(result);
  CHECK_THAT(result.output, contains("not computed: it would take long at these sizes"));
}

TEST_CASE("a few projections do not make inspect take huge states or endless sequences",
          "[cli][hostile][long]") {
  const TemporaryFolder folder;
  const fs::path large = folder / "large.h5", long_one = folder / "run/model.h5";
  // A state of 1.6 GB, of one input.
  const ModelOptions options{
      TokenEmbedding{1, 1},
      {DeltaProductCell{
          .hidden_size = 1, .heads = 1, .key_size = 20000, .value_size = 20000, .householder = 1}},
      LastStep{1}};
  save_model(large, SequenceModel<float>(Device::cpu(), options, Undrawn{}));
  check_success(run(Arguments{"train", "words", "--length", "6", "--batch", "1", "--steps", "1"} +
                    Arguments{"--cell", "deltaproduct", "--hidden", "4", "--heads", "1", "--out",
                              (folder / "run").string()}));
  Hdf5Edit(long_one).replace_in_text("/", "config", "\"length\":6", "\"length\":2147483646");
  const std::pair<fs::path, const char*> said[] = {{large, "not computed: it would take long at these sizes"},
                                                   {long_one, "\n  cell0/1           0  "}};
  for (const auto& [file, words] : said) {
    CAPTURE(file.string());
    const ProgramResult result = run({"inspect", file.string()}, in_little_memory());
    check_success(result);
    CHECK_THAT(result.output, contains(words));
  }
}
