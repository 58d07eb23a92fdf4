// Files that commands write where the user says: what they replace, and what they leave alone.

#include <initializer_list>

#include "cli/run_program.hpp"
#include "orthornn/io/hdf5.hpp"
#include "support/text_file.hpp"

namespace fs = std::filesystem;
using namespace orthornn;
using namespace orthornn::testing;

namespace {

/// An HDF5 file with one dataset of integers for each name.
void write_hdf5(const fs::path& file, std::initializer_list<const char*> names) {
  Hdf5Writer writer;
  const Tensor<std::int32_t> values(Shape{4, 3});
  for (const char* name : names) writer.dataset(name, values);
  writer.commit(file);
}

/// The command, whose last argument is a file to write, replaces none of these files, nor one through a link.
void check_keeps(const Arguments& command, const fs::path& folder,
                 std::initializer_list<std::pair<fs::path, std::string>> files) {
  const auto writing = [&](const fs::path& file) { return run(command + Arguments{file.string()}); };
  for (const auto& [file, words] : files) {
    CAPTURE(file);
    const std::string before = content(file);
    check_refused(writing(file), 1, {file.string(), words, "--overwrite"});
    CHECK((content(file) == before));
  }
  const auto& [target, words] = *files.begin();
  const std::string before = content(target);
  const fs::path link = folder / ("link" + target.extension().string());
  fs::create_symlink(target, link);
  check_refused(writing(link), 1, {link.string(), "a link to '" + target.string() + "'", "--overwrite"});
  CHECK(fs::is_symlink(link));
  CHECK((content(target) == before));

  // The link itself is replaced, and a file of any kind.
  check_success(run(Arguments(command.begin(), command.end() - 1) +
                    Arguments{"--overwrite", command.back(), link.string()}));
  CHECK_FALSE(fs::is_symlink(link));
  CHECK((content(target) == before));
  check_success(run(Arguments(command.begin(), command.end() - 1) +
                    Arguments{"--overwrite", command.back(), target.string()}));
  CHECK((content(target) != before));
}

}  // namespace

TEST_CASE("predict replaces predictions, and another file with --overwrite alone", "[cli][output_file]") {
  const TemporaryFolder folder;
  check_success(run(train_copying(folder / "run", {"--steps", "1"})));
  const fs::path input = folder / "in.h5";
  write_hdf5(input, {"x"});
  const Arguments predict = {"predict", (folder / "run/model.h5").string(), input.string(), "-o"};
  const std::string output = folder / "out.h5";
  write_text(output, "");  // as of mktemp
  check_success(run(predict + Arguments{output}));
  check_success(run(predict + Arguments{output}));

  fs::copy(folder / "run/model.h5", folder / "dear.h5");
  // Predictions of earlier versions have no attribute.
  write_hdf5(output, {"logits", "h_last0", "0.s_last1", "steps_last1", "1.convolution_last1"});
  check_success(run(predict + Arguments{output}));
  CHECK(Hdf5Reader(output).string_attribute("/", "format") == "orthornn-predictions");

  write_hdf5(folder / "own.h5", {"logits", "h_last", "notes"});
  write_hdf5(folder / "my_last.h5", {"logits", "my_last"});
  write_hdf5(folder / "logits.h5", {"logits"});
  write_text(folder / "image.h5", "\x89PNG\r\n\x1a\n and more");
  write_text(folder / "cut.h5", content(output).substr(0, 1000));
  write_text(folder / "notes.hdf5", "dear");
  check_keeps(predict, folder.path(),
              {{folder / "dear.h5", "there is already a trained model"},
               {folder / "own.h5", "there is already an HDF5 file that orthornn predict did not write"},
               {folder / "my_last.h5", "HDF5 file that orthornn predict did not write"},
               {folder / "logits.h5", "HDF5 file that orthornn predict did not write"},
               {folder / "image.h5", "there is already a file that orthornn did not write"},
               {folder / "cut.h5", "HDF5 file"},
               {folder / "notes.hdf5", "did not write"}});
}

TEST_CASE("no output replaces a link to a device", "[cli][output_file]") {
  const TemporaryFolder folder;
  fs::create_symlink("/dev/null", folder / "link");
  const Arguments bench{"bench", "prepare", "--cells", "cwy", "--hidden", "4", "--json", folder / "link"};
  for (const Arguments& more : {Arguments{}, Arguments{"--overwrite"}})
    check_refused(run(bench + more), 1, {"link to a device or a folder", "choose another place"});
  CHECK(fs::is_symlink(folder / "link"));
}

TEST_CASE("bench --json replaces results, and another file with --overwrite alone", "[cli][output_file]") {
  const TemporaryFolder folder;
  const Arguments bench = {"bench", "prepare",   "--cells", "free",  "--hidden",
                           "4",     "--samples", "1",       "--json"};
  const std::string output = folder / "results.json";
  check_success(run(bench + Arguments{output}));
  check_success(run(bench + Arguments{output}));

  write_text(folder / "dear.json", R"({"benchmarks": [1]})");
  write_text(folder / "list.json", R"([{"benchmark": "prepare", "device": "cpu"}, 1])");
  write_text(folder / "mine.json", R"({"benchmark": "mine", "device": "cpu"})");
  write_text(folder / "own.json", R"({"benchmark": "train", "years_of_work": 3})");
  check_success(run(train_copying(folder / "run", {"--steps", "1"})));
  check_keeps(bench, folder.path(),
              {{folder / "dear.json", "did not write"},
               {folder / "list.json", "did not write"},
               {folder / "mine.json", "did not write"},
               {folder / "own.json", "did not write"},
               {folder / "run/model.h5", "there is already a trained model"}});
  // Every benchmark asks before it begins.
  write_text(folder / "dear.json", "dear");
  for (const Arguments& command :
       {Arguments{"bench", "rollout"}, Arguments{"bench", "train", "copying"}, Arguments{"bench", "compare"},
        Arguments{"bench", "rank-one-chain"}, Arguments{"bench", "translate"}}) {
    CAPTURE(command);
    check_refused(run(command + Arguments{"--json", (folder / "dear.json").string()}), 1,
                  {"dear.json", "--overwrite"});
  }
  CHECK(content(folder / "dear.json") == "dear");
}

TEST_CASE("bench compare replaces no page and no JSON of another program", "[cli][output_file]") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "out");
  for (const char* name : {"compare.html", "compare.json"}) {
    const fs::path file = folder / "out" / name;
    write_text(file, "<!doctype html><title>dear</title>");
    check_refused(run({"bench", "compare", "--out", (folder / "out").string()}), 1,
                  {file.string(), "--overwrite"});
    CHECK(content(file) == "<!doctype html><title>dear</title>");
    fs::remove(file);
  }
}

TEST_CASE("report replaces pages of its own, and another file with --overwrite alone",
          "[cli][output_file][long]") {
  const TemporaryFolder folder;
  check_success(run(train_copying(folder / "run", {"--steps", "2", "--log-every", "1"})));
  const Arguments report = {"report", (folder / "run").string(), "--out"};
  const std::string output = folder / "page.html";
  check_success(run(report + Arguments{output}));
  check_success(run(report + Arguments{output}));

  write_text(folder / "dear.html", "<!doctype html>\n<title>Made by orthornn and me</title>\n");
  fs::copy(folder / "run/model.h5", folder / "model.html");
  check_keeps(
      report, folder.path(),
      {{folder / "dear.html", "did not write"}, {folder / "model.html", "there is already a trained model"}});
}
