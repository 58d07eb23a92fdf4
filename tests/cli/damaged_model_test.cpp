// Files that are no sound model are refused with their reason by every command.

#include <initializer_list>

#include "cli/model_content.hpp"
#include "cli/run_program.hpp"
#include "support/text_file.hpp"

namespace fs = std::filesystem;
using namespace orthornn;
using namespace orthornn::testing;

namespace {

/// A run directory with its model, and an input for predict.
class Run {
 public:
  Run() {
    check_success(run(train_copying(folder_ / "run", {"--steps", "2"})));
    original_ = content(model());
    Tensor<std::int32_t> x(Shape{3, 2});
    Hdf5Writer writer;
    writer.dataset("x", x);
    writer.commit(folder_ / "in.h5");
  }
  fs::path model() const { return folder_ / "run/model.h5"; }
  const std::string& original() const { return original_; }

  /// Every command refuses the model as it is now and leaves it alone.
  void check_all_refuse(std::initializer_list<std::string> words) const {
    const std::string before = fs::is_regular_file(model()) ? content(model()) : "";
    const std::string out = folder_ / "out.h5";
    for (const Arguments& arguments :
         {Arguments{"eval", model().string()}, Arguments{"eval", model().string(), "--json"},
          Arguments{"inspect", model().string()},
          Arguments{"predict", model().string(), (folder_ / "in.h5").string(), "-o", out},
          Arguments{"train", "--resume", "--steps", "3", "--out", model().parent_path().string()}}) {
      if (arguments.front() == "train" && !fs::exists(model())) continue;  // nothing saved yet: it starts
      CAPTURE(arguments);
      const ProgramResult result = run(arguments);
      check_refused(result, 1, {model().string()});
      check_refused(result, 1, words);
      CHECK(result.output == "");
    }
    CHECK_FALSE(fs::exists(out));
    if (fs::is_regular_file(model())) CHECK((content(model()) == before));
  }

 private:
  TemporaryFolder folder_;
  std::string original_;
};

/// A file that says of itself that it is a model of this version.
void write_claim(const fs::path& file, const std::string& format, std::int64_t version) {
  Hdf5Writer writer;
  writer.attribute("/", "format", format);
  writer.attribute("/", "format_version", version);
  writer.commit(file);
}

}  // namespace

TEST_CASE("a model that is no sound model file is refused with its reason", "[cli][damage][long]") {
  const Run sound;
  const fs::path model = sound.model();
  SECTION("missing") {
    fs::remove(model);
    sound.check_all_refuse({"no such file"});
  }
  SECTION("empty") {
    write_text(model, "");
    sound.check_all_refuse({"empty"});
  }
  SECTION("a folder") {
    fs::remove(model);
    fs::create_directory(model);
    sound.check_all_refuse({"folder"});
  }
  SECTION("text") {
    write_text(model, "these are not the weights that you are looking for\n");
    sound.check_all_refuse({"not an HDF5 file"});
  }
  SECTION("truncated") {
    for (const std::size_t size :
         {sound.original().size() - 1, sound.original().size() / 2, std::size_t{100}}) {
      write_text(model, sound.original().substr(0, size));
      sound.check_all_refuse({"truncated"});
    }
  }
  SECTION("another program's HDF5") {
    Hdf5Writer writer;
    writer.group("weights");
    writer.commit(model);
    sound.check_all_refuse({"no orthornn model"});
    write_claim(model, "keras", 1);
    sound.check_all_refuse({"no orthornn model"});
  }
  SECTION("a newer format") {
    write_claim(model, "orthornn-model", 4);
    sound.check_all_refuse({"version 4", "newer orthornn"});
  }
  SECTION("a version that never was") {
    write_claim(model, "orthornn-model", 0);
    sound.check_all_refuse({"version 0"});
  }
  SECTION("nothing but the format") {
    write_claim(model, "orthornn-model", 1);
    sound.check_all_refuse({"attribute"});
  }
  SECTION("a config that is none") {
    for (const char* config : {"", "{", "[]", "{\"model\": {}}", "{\"model\": 3}"}) {
      Hdf5Writer writer;
      writer.attribute("/", "format", "orthornn-model");
      writer.attribute("/", "format_version", 2);
      writer.attribute("/", "library_version", "0.1.0");
      writer.attribute("/", "task", "copying");
      writer.attribute("/", "config", config);
      writer.commit(model);
      sound.check_all_refuse({"config"});
    }
  }
  SECTION("a zero reflection vector or a value that is not finite") {
    // What the file claims of itself, with other numbers under good checksums.
    for (const bool zero : {true, false}) {
      write_text(model, sound.original());
      Hdf5Writer writer;
      {
        const Hdf5Reader reader(model);
        for (const char* name : {"format", "library_version", "task", "config"}) {
          writer.attribute("/", name, reader.string_attribute("/", name));
        }
        writer.attribute("/", "format_version", 2);
        for (const char* name : {"cell/reflection_vectors", "cell/input_weights", "cell/bias",
                                 "cell/modrelu_bias", "readout/weight", "readout/bias"}) {
          const std::string path = std::string("parameters/") + name;
          Tensor<float> values = reader.read<float>(path);
          if (zero && path.ends_with("vectors")) std::fill_n(values.begin(), 8, 0.0f);
          if (!zero && path.ends_with("weight")) values(0, 0) = std::numeric_limits<float>::quiet_NaN();
          writer.dataset(path, values);
        }
      }
      writer.commit(model);
      const ProgramResult result = run({"inspect", model.string()});
      check_refused(result, 1, {model.string(), zero ? "reflection vector 0" : "not finite"});
    }
  }
}

TEST_CASE("no flipped bit of a model file goes unnoticed where it matters", "[cli][damage][long]") {
  const TemporaryFolder folder;
  check_success(run(train_copying(folder / "run", {"--steps", "2"})));
  const fs::path model = folder / "run/model.h5", damaged = folder / "damaged.h5";
  const std::string original = content(model);
  const auto sound = training_content(model);
  int refused = 0, harmless = 0;
  // A hundred places all over the file; gaps between HDF5's structures mean nothing to anyone.
  for (std::size_t i = 0; i < 100; ++i) {
    const std::size_t place = original.size() * i / 100 + i % 7;
    CAPTURE(place);
    std::string bytes = original;
    bytes[place] = static_cast<char>(bytes[place] ^ (1 << i % 8));
    write_text(damaged, bytes);
    const ProgramResult result = run({"inspect", damaged.string(), "--json"});
    CHECK(result.signal == 0);
    if (result.exit_code == 0) {
      CHECK(result.errors == "");
      CHECK((parameters_in(damaged) == parameters_in(model)));
      ++harmless;
    } else {
      check_refused(result, 1, {damaged.string()});
      ++refused;
    }
  }
  CAPTURE(harmless);
  CHECK(refused > 30);
}
