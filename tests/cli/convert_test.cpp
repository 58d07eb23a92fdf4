// orthornn convert: model files of format version 1 in the present one.

#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "cli/model_content.hpp"
#include "cli/run_program.hpp"
#include "orthornn/train/model_file.hpp"

namespace fs = std::filesystem;
using namespace orthornn;
using namespace orthornn::testing;
using Json = nlohmann::json;

namespace {

const char* const old_models[] = {"cwy", "householder", "cayley", "expm", "free", "stack"};

fs::path file_of(const std::string& name) {
  return fs::path(ORTHORNN_SOURCE_DIR) / "tests/train/version_1" / (name + ".h5");
}

Arguments convert(const fs::path& from, const fs::path& to) {
  return {"convert", from.string(), to.string()};
}

/// What `inspect` says of a file, without what a conversion changes.
Json description(const fs::path& file, int version) {
  const ProgramResult result = run({"inspect", file.string(), "--json"});
  check_success(result);
  Json json = Json::parse(result.output);
  CHECK(json.at("format_version") == version);
  for (const char* changed : {"model", "format_version", "library_version"}) json.erase(changed);
  for (Json& cell : json["config"]["model"]["cells"]) cell.erase("kind");
  return json;
}

/// A run directory with this model, as the program of version 1 would have left it, but without the best one.
void make_run(const fs::path& folder, const fs::path& model) {
  const ModelFileInfo info = read_model_info(model);
  const auto& options = std::get<ModelOptions>(info.model);
  fs::create_directories(folder);
  fs::copy_file(model, folder / "model.h5");
  const auto& cell = std::get<OrthogonalCell>(options.cells[0]);
  std::ofstream config(folder / "config.toml");
  config << "task = \"" << info.task_name << "\"\n"
         << (info.task_name == "copying" ? "delay = 3\n" : "length = 4\n") << "cell = \""
         << name_of(cell.transition) << "\"\nhidden = " << cell.hidden_size
         << "\nlayers = " << options.cells.size() << "\nactivation = \"" << name_of(cell.activation)
         << "\"\ninput-matrix = \"" << name_of(cell.input_matrix)
         << "\"\nlearn-initial-state = " << (cell.learn_initial_state ? "true" : "false")
         << "\nbatch = " << info.batch << "\noptimizer = \"" << info.optimizer << "\"\n";
  if (const Index* reflections = reflections_of(cell.transition))
    config << "reflections = " << *reflections << "\n";
}

}  // namespace

TEST_CASE("convert keeps every number and every option", "[cli][convert][long]") {
  const TemporaryFolder folder;
  for (const char* name : old_models) {
    CAPTURE(name);
    const fs::path now = folder / "now.h5";
    const ProgramResult result = run(convert(file_of(name), now));
    check_success(result);
    CHECK(result.output ==
          now.string() +
              ": format version 2, converted from version 1; its training can go on after step 3\n");
    CHECK((training_content(now) == training_content(file_of(name))));
    CHECK(description(now, 2) == description(file_of(name), 1));
    fs::remove(now);
  }
}

TEST_CASE("a training goes on from a converted model with the same bits", "[cli][convert][long]") {
  const TemporaryFolder folder;
  for (const char* name : old_models) {
    CAPTURE(name);
    const fs::path before = folder / name / "before", after = folder / name / "after";
    make_run(before, file_of(name));
    make_run(after, file_of(name));
    const std::string model = after / "model.h5";
    check_success(run(convert(model, model)));
    for (const fs::path& out : {before, after}) {
      const ProgramResult resumed =
          run({"train", "--resume", "--steps", "5", "--eval-every", "5", "--out", out.string()});
      CHECK(resumed.exit_code == 0);
      CHECK_THAT(resumed.output, contains("going on after step 3"));
    }
    CHECK(steps_in(after / "model.h5") == 5);
    CHECK((content(after / "model.h5") == content(before / "model.h5")));
  }
}

TEST_CASE("convert leaves a model of the present format as it is", "[cli][convert]") {
  const TemporaryFolder folder;
  const fs::path model = folder / "run/model.h5", again = folder / "again.h5";
  check_success(run(train_copying(folder / "run", {"--steps", "2", "--cell", "lstm"})));
  check_success(run(convert(model, again)));
  CHECK((content(again) == content(model)));
  // A model has no training where it was saved without one. Another file is not replaced.
  save_model(folder / "alone.h5", *load_model(model));
  check_refused(run(convert(folder / "alone.h5", again)), 2, {"again.h5", "exists already"});
  const ProgramResult result = run(convert(folder / "alone.h5", folder / "third.h5"));
  check_success(result);
  CHECK_THAT(result.output, !contains("training"));
  CHECK((content(folder / "third.h5") == content(folder / "alone.h5")));
}

TEST_CASE("convert writes through no link to another file", "[cli][convert]") {
  const TemporaryFolder folder;
  const fs::path target = folder / "target.h5", link = folder / "link.h5";
  fs::create_symlink(target, link);
  check_refused(run(convert(file_of("cwy"), link)), 2, {"link.h5", "exists already"});
  CHECK_FALSE(fs::exists(target));
  fs::copy_file(file_of("free"), target);
  check_refused(run(convert(file_of("cwy"), link)), 2, {"link.h5", "exists already"});
  CHECK((content(target) == content(file_of("free"))));
  // The old file itself may have the link's name.
  check_success(run(convert(target, link)));
  CHECK(fs::is_symlink(link));
  CHECK((training_content(target) == training_content(file_of("free"))));
}

TEST_CASE("convert rejects files that are no models, and replaces no other file", "[cli][convert]") {
  const TemporaryFolder folder;
  const fs::path notes = folder / "notes.txt", other = folder / "other.h5";
  std::ofstream(notes) << "text";
  Hdf5Writer writer;
  writer.attribute("/", "title", "results");
  writer.commit(other);
  const std::string results = content(other);
  check_refused(run({"convert", file_of("cwy").string()}), 2, {"new"});
  check_refused(run(convert(notes, folder / "now.h5")), 1, {"notes.txt", "HDF5"});
  check_refused(run(convert(folder / "none.h5", folder / "now.h5")), 1, {"none.h5"});
  check_refused(run(convert(file_of("cwy"), notes)), 2, {"notes.txt", "exists already", "new name"});
  check_refused(run(convert(file_of("cwy"), other)), 2, {"other.h5", "exists already"});
  check_refused(run(convert(file_of("cwy"), folder / "none/now.h5")), 1, {"none/now.h5"});
  CHECK(content(notes) == "text");
  CHECK((content(other) == results));
  CHECK_FALSE(fs::exists(folder / "now.h5"));
}
