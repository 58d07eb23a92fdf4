// Frames: the task video, and cells that read it.

#include <fmt/format.h>

#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>

#include "cli/html_page_content.hpp"
#include "cli/model_content.hpp"
#include "cli/run_program.hpp"
#include "cli/tiny_mnist.hpp"
#include "orthornn/io/hdf5.hpp"
#include "support/npz_reader.hpp"
#include "support/npz_writer.hpp"

namespace fs = std::filesystem;
using namespace orthornn;
using namespace orthornn::testing;
using Json = nlohmann::json;

namespace {

Arguments train_video(const fs::path& out, const Arguments& more) {
  return Arguments{"train", "video",        "--frames", "5",          "--batch",  "4",     "--log-every",
                   "1",     "--eval-every", "2",        "--schedule", "constant", "--out", out.string()} +
         more;
}

/// Writes clips [12, 9, 7, 10] whose frames become brighter.
void write_clips(const fs::path& file) {
  std::string grays;
  for (int clip = 0; clip < 12; ++clip) {
    for (int frame = 0; frame < 9; ++frame) grays.append(70, static_cast<char>(10 * frame + clip));
  }
  write_text(file, npy("|u1", "12, 9, 7, 10", grays));
}

}  // namespace

TEST_CASE("hidden kernels on the manifold have a rate of their own", "[cli][video]") {
  const TemporaryFolder folder;
  for (const char* kernel : {"stiefel", "own", "matrix"}) {
    CAPTURE(kernel);
    check_success(run(train_video(folder / kernel, {"--cell", "convneru", "--hidden", "2", "--hidden-kernel",
                                                    kernel, "--lr-orth", "1e-3", "--steps", "1"})));
  }
}

TEST_CASE("a cell of frames is trained, evaluated and resumed", "[cli][video][long]") {
  const TemporaryFolder folder;
  const fs::path whole = folder / "whole", halves = folder / "halves";
  const Arguments cell = {"--cell", "convneru", "--hidden", "3", "--hidden-kernel", "orthogonal"};
  check_success(run(train_video(whole, cell + Arguments{"--steps", "4"})));
  check_success(run(train_video(halves, cell + Arguments{"--steps", "2"})));
  check_success(run({"train", "--resume", "--steps", "4", "--out", halves.string()}));
  CHECK((training_content(halves / "model.h5") == training_content(whole / "model.h5")));

  const ProgramResult result = run({"eval", (whole / "model.h5").string(), "--json"});
  check_success(result);
  const Json json = Json::parse(result.output);
  for (const char* name : {"absolute_and_squared_error", "mse", "mae", "ssim", "psnr"}) {
    CAPTURE(name);
    CHECK(json.at(name).is_number());
  }
  CHECK(json.at("task") == "video");
  const ProgramResult longer = run({"eval", (whole / "model.h5").string(), "--lengths", "9"});
  check_success(longer);
  CHECK_THAT(longer.output, contains("L1 + L2 error") && contains("PSNR"));
  const ProgramResult shown = run({"inspect", (whole / "model.h5").string()});
  check_success(shown);
  CHECK_THAT(shown.output, contains("convneru"));
}

TEST_CASE("Moving MNIST is trained, resumed and evaluated", "[cli][video][long]") {
  const TemporaryFolder folder;
  write_tiny_mnist(folder / "data");
  const fs::path out = folder / "run";
  check_success(run(train_video(out, {"--clips", "mnist", "--data", (folder / "data").string(), "--cell",
                                      "convneru", "--hidden", "1", "--kernel-size", "1", "--steps", "1"})));
  check_success(run({"train", "--resume", "--steps", "2", "--out", out.string()}));
  const ProgramResult result = run({"eval", (out / "model.h5").string(), "--json"});
  check_success(result);
  CHECK(Json::parse(result.output).at("baseline") == 0.0918);
  fs::remove_all(folder / "data");
  check_refused(run({"eval", (out / "model.h5").string()}), 1, {"tools/fetch-data mnist"});
}

TEST_CASE("other cells read frames as vectors, and cells of frames stand in tables", "[cli][video]") {
  const TemporaryFolder folder;
  check_success(run(train_video(folder / "lstm", {"--cell", "lstm", "--hidden", "4", "--steps", "1"})));
  check_success(run(train_video(folder / "convlstm",
                                {"--cell", "convlstm", "--hidden", "4", "--peepholes", "--steps", "1"})));
  const fs::path config = folder / "layers.toml";
  std::ofstream(config) << "[[layer]]\nkind = \"convneru\"\nhidden_size = 2\nkernel_size = 5\n";
  check_success(run(train_video(folder / "tables", {"--config", config.string(), "--steps", "1"})));
  check_refused(run(train_video(folder / "free", {"--cell", "convneru", "--hidden-kernel", "glorot",
                                                  "--lr-orth", "1e-3", "--steps", "1"})),
                2, {"--lr-orth", "--hidden-kernel glorot", "--lr"});
  check_refused(run({"train", "translate", "--encoder", "convneru", "--data", "none", "--out",
                     (folder / "none").string()}),
                2, {"convneru reads frames", "the task video"});
}

TEST_CASE("orthogonal convolutions of frames are trained and inspected", "[cli][video]") {
  const TemporaryFolder folder;
  const auto tables = [&](const std::string& conv) {
    return write_text(folder / "layers.toml",
                      "[[layer]]\nkind = \"orthogonal_conv\"\n" + conv +
                          "[[layer]]\nkind = \"convneru\"\nhidden_size = 2\n" +
                          "[[layer]]\nkind = \"orthogonal_conv\"\nkernel = \"matrix\"\n")
        .string();
  };
  const fs::path out = folder / "run";
  check_success(
      run(train_video(out, {"--config", tables("channels = 3\nkernel = \"own\"\n"), "--steps", "2"})));
  check_success(run({"train", "--resume", "--steps", "3", "--out", out.string()}));
  check_success(run({"eval", (out / "model.h5").string()}));
  const ProgramResult shown = run({"inspect", (out / "model.h5").string()});
  check_success(shown);
  CHECK_THAT(shown.output, contains("orthogonal_conv"));
  check_refused(run(train_video(folder / "none", {"--config", tables("height = 7\n"), "--steps", "1"})), 2,
                {"orthogonal_conv", "frames of 7 x 8", "height = 8"});
  check_refused(run(train_video(folder / "none", {"--config", tables("kernel_size = 9\n"), "--steps", "1"})),
                2, {"kernel_size 9 of a layer orthogonal_conv", "frames of 8 x 8", "an odd number up to 7"});
}

TEST_CASE("a kernel beyond one side of the frames is refused with both sizes and that side", "[cli][video]") {
  const TemporaryFolder folder;
  const std::string data = (folder / "clips.npy").string();
  for (const auto& [height, width, side] :
       {std::tuple{7, 10, "rows"}, std::tuple{10, 7, "columns"}, std::tuple{7, 7, "rows and columns"}}) {
    CAPTURE(side);
    fs::remove(data);
    write_text(data, npy("|u1", fmt::format("12, 9, {}, {}", height, width),
                         std::string(static_cast<std::size_t>(12 * 9 * height * width), 'x')));
    check_refused(run(train_video(folder / "run", {"--clips", "own", "--data", data, "--cell", "convlstm",
                                                   "--kernel-size", "9", "--steps", "1"})),
                  2,
                  {"--kernel-size 9", "kernels of 9 x 9", fmt::format("frames of {} x {}", height, width),
                   fmt::format("more {} than", side), "an odd number up to 7"});
  }
}

TEST_CASE("layers that read the next frame are refused", "[cli][video]") {
  const TemporaryFolder folder;
  const fs::path config = write_text(folder / "both-ways.toml",
                                     "task = 'video'\n[[layer]]\nkind = 'bidirectional'\n"
                                     "[[layer.layers]]\nkind = 'convneru'\nhidden_size = 2\n");
  check_refused(
      run({"train", "--config", config.string(), "--steps", "1", "--out", (folder / "run").string()}), 2,
      {"backward in time", "use layers that read forward"});
}

TEST_CASE("a model of videos predicts from grays alone, and names all forms that it reads", "[cli][video]") {
  const TemporaryFolder folder;
  check_success(run(train_video(folder / "run", {"--cell", "lstm", "--hidden", "2", "--steps", "1"})));
  const std::string out = (folder / "y.npz").string();
  const auto predict = [&](const fs::path& file) {
    return run({"predict", (folder / "run/model.h5").string(), file.string(), "--overwrite", "--out", out});
  };
  const auto write_x = [&](float pixel) {
    Tensor<float> x(Shape{3, 1, 64});
    x(1, 0, 5) = pixel;
    Hdf5Writer writer;
    writer.dataset("x", x);
    writer.commit(folder / "x.h5");
    return folder / "x.h5";
  };
  for (const float gray : {0.0F, 1.0F}) check_success(predict(write_x(gray)));
  check_refused(predict(write_x(255)), 1,
                {"x.h5", "a pixel is 255", "expected 0 for black to 1 for white: divide"});
  check_refused(predict(write_x(-0.5F)), 1, {"a pixel is -0.5", "expected 0 for black to 1 for white"});
  // The padding of /x is no data.
  std::string outputs;
  for (const float padding : {0.0F, 255.0F, std::numeric_limits<float>::quiet_NaN()}) {
    for (const std::int32_t length : {2, 3}) {
      if (padding == 0 && length == 3) continue;
      CAPTURE(padding, length);
      Tensor<float> x(Shape{3, 2, 64});
      x(2, 1, 5) = padding;
      Tensor<std::int32_t> lengths(Shape{2});
      lengths(0) = 3;
      lengths(1) = length;
      Hdf5Writer writer;
      writer.dataset("x", x);
      writer.dataset("lengths", lengths);
      writer.commit(folder / "x.h5");
      if (length == 2) {
        check_success(predict(folder / "x.h5"));
        if (padding == 0) outputs = content(out);
        CHECK(content(out) == outputs);
      } else {
        check_refused(predict(folder / "x.h5"), 1, {"x.h5", "a pixel is", "expected 0 for black"});
      }
    }
  }
  for (const char* name : {"clip.txt", "clip.mp4", "clip.h5"}) {
    write_text(folder / name, "no frames");
    check_refused(predict(folder / name), 1,
                  {name, "not an HDF5 file", "a folder of gray images", ".npy or .npz"});
  }
}

TEST_CASE("frames ahead are refused for a model of another task", "[cli][video]") {
  const TemporaryFolder folder;
  const std::string out = (folder / "run").string();
  check_success(run({"train", "copying", "--delay", "5", "--hidden", "4", "--steps", "1", "--out", out}));
  const std::string model = out + "/model.h5";
  for (const Arguments& command :
       {Arguments{"eval", model}, Arguments{"predict", model, model, "--out", (folder / "y.npz").string()}}) {
    Arguments with_ahead = command;
    with_ahead.insert(with_ahead.end(), {"--ahead", "1"});
    check_refused(run(with_ahead), 2, {"--ahead is for models of frames", "the task copying"});
  }
}

TEST_CASE("own videos are learned, evaluated ahead, predicted and shown", "[cli][video][long]") {
  const TemporaryFolder folder;
  const std::string data = (folder / "clips.npy").string();
  write_clips(data);
  const fs::path out = folder / "run", model = out / "best.h5";
  const ProgramResult trained = run(train_video(
      out, {"--clips", "own", "--data", data, "--cell", "convneru", "--hidden", "2", "--steps", "4"}));
  REQUIRE(trained.exit_code == 0);
  CHECK_THAT(trained.errors,
             contains("12 clips are divided by seed 1") && contains("48 frames are left out"));
  REQUIRE(run({"train", "--resume", "--steps", "6", "--out", out.string()}).exit_code == 0);

  const ProgramResult tested = run({"eval", model.string(), "--ahead", "3", "--json"});
  check_success(tested);
  const Json json = Json::parse(tested.output);
  REQUIRE(json.at("ahead").size() == 3);
  for (int m = 0; m < 3; ++m) {
    CHECK(json.at("ahead")[m].at("frame") == m + 1);
    for (const char* name : {"mse", "mae", "ssim", "psnr"}) CHECK(json.at("ahead")[m].at(name).is_number());
  }
  const ProgramResult text = run({"eval", model.string(), "--ahead", "4"});
  check_success(text);
  CHECK_THAT(text.output, contains("frame ahead") && contains("PSNR"));
  check_refused(run({"eval", model.string(), "--ahead", "5"}), 2, {"clips have 5 frames", "4 at most"});

  const fs::path predicted = folder / "predicted.npz";
  const Arguments predict = {"predict", model.string(), data, "--ahead", "6", "--out", predicted.string()};
  const ProgramResult said = run(predict);
  check_success(said);
  CHECK_THAT(said.output, contains("outputs [12, 9, 70]") && contains("frames_ahead [12, 6, 7, 10]"));
  check_refused(run({"predict", model.string(), data, "--ahead", "6", "--out", (folder / "a.csv").string()}),
                2, {"--ahead needs a file of arrays"});
  check_refused(run({"predict", model.string(), data, "--ahead", "1000000000000", "--out",
                     (folder / "long.npz").string()}),
                1, {"--ahead 1000000000000", "memory are free"});
  write_text(folder / "other.npy", npy("|u1", "2, 10, 7", std::string(140, 'x')));
  check_refused(run({"predict", model.string(), (folder / "other.npy").string(), "--out", predicted.string(),
                     "--overwrite"}),
                1, {"10 x 7", "7 x 10"});

  write_text(folder / "frame.png", "no image");
  for (const char* wrong : {"frame.png", "nothing"}) {
    check_refused(
        run({"predict", model.string(), (folder / wrong).string(), "--out", (folder / "b.npz").string()}), 1,
        {"a folder of gray images"});
  }

  const fs::path page = folder / "page.html";
  check_success(run({"report", out.string(), "--out", page.string()}));
  const std::string shown = read_text(page);
  check_self_contained(shown);
  CHECK_THAT(shown, contains("true frames") && contains("as an animation") && contains("image-rendering"));
  CHECK(occurrences(shown, "src=\"data:image/png;base64,iVBORw0KGgo") == 2);  // of the one test clip

  // Other clips, of the same shape, and none at all: a page without pictures, which says why.
  const auto check_undrawn = [&](const std::string& reason) {
    const ProgramResult drawn = run({"report", out.string(), "--out", page.string(), "--overwrite"});
    CHECK(drawn.exit_code == 0);
    CHECK_THAT(drawn.errors, contains("no frames are drawn") && contains(reason));
    const std::string without = read_text(page);
    CHECK_THAT(without, contains("no frames are drawn"));
    CHECK(occurrences(without, "data:image/png") == 0);
  };
  std::string bytes = read_text(data);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  fs::remove(data);
  write_text(data, bytes);
  check_undrawn("other clips than those");
  fs::remove(data);
  check_undrawn("no folder and no file");
}

TEST_CASE("data of clips that need none are refused, and own clips without data", "[cli][video]") {
  const TemporaryFolder folder;
  const std::string data = (folder / "clips.npy").string();
  write_clips(data);
  check_refused(run(train_video(folder / "run", {"--data", data})), 2, {"data were given", "--clips own"});
  check_refused(run(train_video(folder / "run", {"--clips", "own"})), 1, {"need --data"});
  check_refused(run(train_video(folder / "run", {"--clips", "own", "--data", (folder / "no").string()})), 1,
                {"no folder and no file"});
  CHECK_FALSE(fs::exists(folder / "run"));
}
