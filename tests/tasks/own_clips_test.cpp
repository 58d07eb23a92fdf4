#include "tasks/video/own_clips.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "io/png.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/tasks/task_options.hpp"
#include "support/catch.hpp"
#include "support/error_message.hpp"
#include "support/npz_writer.hpp"
#include "support/temporary_folder.hpp"
#include "support/text_file.hpp"
#include "tasks/video/name_order.hpp"

namespace orthornn::testing {
namespace {

namespace fs = std::filesystem;
using Grays = std::vector<std::uint8_t>;

constexpr Index clip_height = 7, clip_width = 9, clip_pixels = clip_height * clip_width;

/// A frame of one gray.
GrayImage frame_of(std::uint8_t gray) {
  return {.height = clip_height, .width = clip_width, .pixels = Grays(clip_pixels, gray)};
}

/// Writes a clip of frames of these grays, as frame-1.png, frame-2.pgm, ..
void write_clip(const fs::path& folder, const Grays& grays) {
  fs::create_directories(folder);
  for (std::size_t i = 0; i < grays.size(); ++i) {
    const GrayImage frame = frame_of(grays[i]);
    const std::string name = "frame-" + std::to_string(i + 1);
    if (i % 2 == 0) {
      write_text(folder / (name + ".png"), png::still(frame));
    } else {
      write_text(folder / (name + ".PGM"), "P5 9 7 255\n" + raw_bytes(frame.pixels));
    }
  }
}

/// The first pixel of each frame.
Grays grays_of(const OwnClips& clips) {
  Grays grays;
  for (Index i = 0; i < clips.frame_count(); ++i)
    grays.push_back(clips.bytes[static_cast<std::size_t>(i * clip_pixels)]);
  return grays;
}

/// Numbers of frames of the grays 0, 1, ..
Grays frame_bytes(std::size_t count) {
  Grays numbers;
  for (std::size_t i = 0; i < count; ++i)
    numbers.insert(numbers.end(), clip_pixels, static_cast<std::uint8_t>(i));
  return numbers;
}

std::string clip_refusal(const fs::path& data) {
  return error_message<FileError>([&] { read_own_clips(data); });
}

std::set<long> grays_in(const Batch& batch) {
  std::set<long> found;
  for (const std::string_view name : {batch_names::features, batch_names::values}) {
    for (const float x : batch.needed_reals(name)) found.insert(std::lround(x * 255));
  }
  return found;
}

/// All grays of a set.
std::set<long> grays_of_set(const Task& task, HeldOut set) {
  std::set<long> found;
  Batch batch;
  for (Index i = 0; i < task.evaluation_batches(set); ++i) {
    task.evaluation_batch(set, i, batch);
    found.merge(grays_in(batch));
  }
  return found;
}

}  // namespace

TEST_CASE("clips are read from folders in the order of the numbers in names", "[video][own-video]") {
  const TemporaryFolder folder;
  write_clip(folder / "clip-10", {50, 51});
  write_clip(folder / "clip-9", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  write_text(folder / "clip-9" / ".DS_Store", "left by a system");
  write_text(folder / "clip-9" / "notes.txt", "no frame");
  const OwnClips clips = read_own_clips(folder.path());
  CHECK((clips.height == clip_height && clips.width == clip_width));
  CHECK(clips.lengths == std::vector<Index>{11, 2});
  CHECK(clips.names == std::vector<std::string>{"clip-9", "clip-10"});
  CHECK(grays_of(clips) == Grays{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 50, 51});
  CHECK(clips.grays()(11, 0) == 50 / 255.0F);
  CHECK(read_own_clips(folder / "clip-10").lengths == std::vector<Index>{2});
  CHECK(comes_before("a007b2", "a7b10"));
  CHECK_FALSE(comes_before("a10", "a9"));
  CHECK((comes_before("a01", "a1") != comes_before("a1", "a01")));
}

TEST_CASE("clips are read from arrays of bytes and of floats", "[video][own-video]") {
  const TemporaryFolder folder;
  const std::string six = npy("|u1", "2, 3, 7, 9", raw_bytes(frame_bytes(6)));
  const OwnClips clips = read_own_clips(write_text(folder / "a.npy", six));
  CHECK(clips.lengths == std::vector<Index>{3, 3});
  CHECK(grays_of(clips) == Grays{0, 1, 2, 3, 4, 5});
  write_npz(folder / "b.npz", {{"second", six}, {"first", npy("|u1", "1, 7, 9", raw_bytes(frame_bytes(1)))}});
  CHECK(read_own_clips(folder / "b.npz").lengths == std::vector<Index>{1, 3, 3});
  const std::vector<float> reals(4 * clip_pixels, 0.25F);
  const OwnClips real = read_own_clips(write_text(folder / "c.npy", npy("<f4", "4, 7, 9", raw_bytes(reals))));
  CHECK(real.lengths == std::vector<Index>{4});
  CHECK(real.reals == reals);
  CHECK(real.checksum() != clips.checksum());
  const Index too_many = Index{1} << 50;
  CHECK_THAT(error_message<FileError>([&] { read_own_clips(folder / "a.npy", too_many); }),
             contains("GB of memory are free"));
}

TEST_CASE("hostile videos are refused in a sentence", "[video][own-video]") {
  const TemporaryFolder folder;
  CHECK_THAT(clip_refusal(""), contains("need --data"));
  CHECK_THAT(clip_refusal(folder / "none"), contains("no folder and no file"));
  CHECK_THAT(clip_refusal(folder.path()), contains("no frame") && contains(".png or .pgm"));
  CHECK_THAT(clip_refusal(write_text(folder / "video.mp4", "x")),
             contains("expected a folder of gray images"));
  fs::remove(folder / "video.mp4");
  // 1. Folders.
  write_clip(folder / "mixed" / "clip", {1});
  write_clip(folder / "mixed", {1});
  CHECK_THAT(clip_refusal(folder / "mixed"), contains("1 image and 1 folder;"));
  fs::create_directories(folder / "empty" / "clip");
  CHECK_THAT(clip_refusal(folder / "empty"), contains("clip: it has no frame"));
  write_clip(folder / "sizes", {1, 2});
  write_text(folder / "sizes" / "frame-3.pgm", "P5 9 8 255\n" + std::string(72, 'x'));
  CHECK_THAT(clip_refusal(folder / "sizes"), contains("8 x 9") && contains("7 x 9") && contains("one size"));
  fs::create_directories(folder / "small");
  write_text(folder / "small" / "frame.pgm", "P5 9 6 255\n" + std::string(54, 'x'));
  CHECK_THAT(clip_refusal(folder / "small"), contains("6 x 9") && contains("7 to 8192"));
  fs::create_directories(folder / "loop");
  fs::create_symlink("frame.png", folder / "loop" / "frame.png");
  CHECK_THAT(clip_refusal(folder / "loop"), contains("cannot be looked at"));
  fs::create_directories(folder / "round");
  fs::create_directory_symlink(folder / "round", folder / "round" / "clip");
  CHECK_THAT(clip_refusal(folder / "round"), contains("no frame"));
  write_clip(folder / "cut", {1});
  const std::string whole = png::still(frame_of(3));
  write_text(folder / "cut" / "frame-2.png", whole.substr(0, whole.size() - 20));
  CHECK_THAT(clip_refusal(folder / "cut"), contains("frame-2.png") && contains("cut off"));
}

TEST_CASE("hostile arrays of frames are refused in a sentence", "[video][own-video]") {
  const TemporaryFolder folder;
  const auto of_npy = [&](const std::string& type, const std::string& shape, const std::string& numbers,
                          const std::string& fortran = "False") {
    return clip_refusal(write_text(folder / "a.npy", npy(type, shape, numbers, fortran)));
  };
  const std::string one(clip_pixels, '\1');
  CHECK_THAT(of_npy("|u1", "1, 7, 9", one, "True"), contains("Fortran order"));
  CHECK_THAT(of_npy("|O", "1, 7, 9", one), contains("pickle"));
  CHECK_THAT(of_npy("<i8", "1, 7, 9", std::string(8 * clip_pixels, '\0')),
             contains("'i8'") && contains("uint8"));
  CHECK_THAT(of_npy("|u1", "7, 9", one), contains("[7, 9]") && contains("[frames, rows, columns]"));
  CHECK_THAT(of_npy("|u1", "1, 1, 1, 7, 9", one), contains("[1, 1, 1, 7, 9]"));
  CHECK_THAT(of_npy("|u1", "0, 7, 9", ""), contains("none of them 0"));
  CHECK_THAT(of_npy("|u1", "2, 7, 9", one), contains("does not fit the 63 bytes"));
  CHECK_THAT(of_npy("|u1", "1, 7, 9", one + "x"), contains("does not fit the 64 bytes"));
  CHECK_THAT(of_npy("|u1", "99999999999, 7, 9", one), contains("does not fit"));
  CHECK_THAT(of_npy("|u1", "999999999999999, 999999999999999, 9", one), contains("larger than any memory"));
  CHECK_THAT(of_npy("<f4", "1, 7, 9", raw_bytes(std::vector<float>(clip_pixels, 255.0F))),
             contains("pixel [0, 0, 0] is 255") && contains("divide"));
  for (const float wrong : {std::nanf(""), -0.5F}) {
    std::vector<float> pixels(2 * clip_pixels);
    pixels[clip_pixels + 9 + 2] = wrong;
    CHECK_THAT(of_npy("<f4", "2, 1, 7, 9", raw_bytes(pixels)),
               contains(fmt::format("pixel [1, 0, 1, 2] is {}", wrong)) && !contains("divide"));
  }
  for (const char* shape : {"-1, 7, 9", "1x, 7, 9", "1 7, 9", "1*1, 7, 9", "1, 7.0, 9", "1,, 7, 9"})
    CHECK_THAT(of_npy("|u1", shape, one), contains("whole numbers with commas"));
  CHECK_THAT(of_npy("|u1", "1, 7, 9", one, "Maybe"), contains("'fortran_order'"));
  CHECK(read_own_clips(write_text(folder / "old.npy", npy("|u1", "1L, 7L, 9L,", one)), 1).bytes.size() ==
        static_cast<std::size_t>(clip_pixels));
  std::string version_9 = npy("|u1", "1, 7, 9", one);
  version_9[6] = 9;
  CHECK_THAT(clip_refusal(write_text(folder / "a.npy", version_9)), contains("version 9"));
  CHECK_THAT(clip_refusal(write_text(folder / "b.npy", "\x93NUMPY")), contains("no array of NumPy"));
  CHECK_THAT(clip_refusal(write_text(folder / "c.npz", "no archive")), contains("no .npz file"));
  write_npz(folder / "d.npz", {{"a", npy("|u1", "1, 7, 9", one)},
                               {"b", npy("<f4", "1, 7, 9", raw_bytes(std::vector<float>(clip_pixels)))}});
  CHECK_THAT(clip_refusal(folder / "d.npz"), contains("different types"));
  write_npz(folder / "e.npz", {{"a", npy("|u1", "1, 7, 9", one)}, {"b", npy("|u1", "1, 9, 7", one)}});
  CHECK_THAT(clip_refusal(folder / "e.npz"), contains("9 x 7") && contains("7 x 9"));
  write_zip(folder / "f.npz", {{"readme.txt", "no array"}});
  CHECK_THAT(clip_refusal(folder / "f.npz"), contains("no arrays"));
  // A header that promises a thousand times what there is.
  write_npz(folder / "g.npz", {{"a", npy("|u1", "1000, 7, 9", one)}});
  CHECK_THAT(clip_refusal(folder / "g.npz"), contains("does not fit"));
  // The sum of these frames does not fit an integer.
  std::vector<std::pair<std::string, std::string>> huge;
  for (int i = 0; i < 60; ++i)
    huge.emplace_back("a" + std::to_string(i), npy("|u1", "180, 999999999999999, 7, 7", one));
  write_npz(folder / "h.npz", huge);
  CHECK_THAT(clip_refusal(folder / "h.npz"), contains("a0") && contains("does not fit the 63 bytes"));
}

TEST_CASE("own clips are divided by the seed, and their pieces do not overlap", "[video][own-video]") {
  const TemporaryFolder folder;
  // Clip i has the grays 10 i to 10 i + 8: two pieces of four frames, and a frame that is left out.
  std::map<long, Index> clip_of;
  for (Index i = 0; i < 20; ++i) {
    Grays grays;
    for (Index t = 0; t < 9; ++t) {
      grays.push_back(static_cast<std::uint8_t>(10 * i + t));
      clip_of[10 * i + t] = i;
    }
    write_clip(folder / ("clip" + std::to_string(i)), grays);
  }
  const VideoTask task({.clips = Clips::own, .data = folder.path(), .frames = 4, .batch = 3, .seed = 3});
  CHECK(task.frame_size() == std::array<Index, 2>{clip_height, clip_width});
  CHECK(task.data().features == clip_pixels);
  std::map<Index, int> set_of;
  for (const HeldOut set : {HeldOut::validation, HeldOut::test}) {
    const std::set<long> grays = grays_of_set(task, set);
    CHECK(grays.size() == 16);  // two clips of eight frames each
    for (const long gray : grays) {
      CHECK(gray % 10 < 8);
      set_of[clip_of[gray]] |= set == HeldOut::test ? 2 : 1;
    }
  }
  CHECK(set_of.size() == 4);
  Batch batch;
  std::set<long> seen;
  for (std::uint64_t step = 0; step < 100; ++step) {
    task.training_batch(step, batch);
    const TensorView<const float> features = std::as_const(batch).reals(batch_names::features),
                                  values = std::as_const(batch).reals(batch_names::values);
    REQUIRE(features.shape() == Shape{3, 3, clip_pixels});
    for (Index b = 0; b < 3; ++b) {
      const long first = std::lround(features(0, b, 0) * 255);
      CHECK((first % 10 == 0 || first % 10 == 4));
      CHECK_FALSE(set_of.contains(first / 10));
      for (Index t = 0; t < 3; ++t) CHECK(std::lround(values(t, b, clip_pixels - 1) * 255) == first + t + 1);
      seen.insert(first);
    }
  }
  CHECK(seen.size() == 32);  // 16 clips of two pieces
  CHECK_THAT(task.left_out(), contains("20 clips are divided by seed 3") &&
                                  contains("32 pieces of 16 clips") && contains("20 frames are left out"));
  const VideoTask other({.clips = Clips::own, .data = folder.path(), .frames = 4, .batch = 3, .seed = 4});
  CHECK(grays_of_set(other, HeldOut::test) != grays_of_set(task, HeldOut::test));
  // Longer clips of the same videos.
  const auto longer = task.with_length(8, 2);
  CHECK(longer->evaluation_batches(HeldOut::test) == 1);
  CHECK_THAT(error_message<FileError>([&] { task.with_length(9, 2)->load(); }),
             contains("10 frames of a piece, the longest has 9"));
}

TEST_CASE("clips of another place have the frames of the task", "[video][own-video]") {
  const TemporaryFolder folder;
  const VideoTask task({.clips = Clips::squares});
  const std::vector<std::uint8_t> bytes(2 * 3 * 64, 51), more(3 * 81, 51);
  write_text(folder / "new.npy", npy("|u1", "2, 3, 8, 8", raw_bytes(bytes)));
  const std::optional<SequenceInputs> found = task.own_inputs(folder / "new.npy");
  REQUIRE(found);
  CHECK(found->lengths == std::vector<std::int32_t>{3, 3});
  CHECK(found->features.shape() == Shape{6, 64});
  CHECK(found->features(5, 63) == 0.2F);
  CHECK_FALSE(task.own_inputs(write_text(folder / "new.csv", "x\n1\n")));
  write_text(folder / "large.npy", npy("|u1", "3, 9, 9", raw_bytes(more)));
  CHECK_THAT(error_message<FileError>([&] { task.own_inputs(folder / "large.npy"); }),
             contains("9 x 9 pixels; this model reads 8 x 8"));
}

TEST_CASE("one clip is divided in time", "[video][own-video]") {
  const TemporaryFolder folder;
  write_text(folder / "a.npy", npy("|u1", "40, 7, 9", raw_bytes(frame_bytes(40))));
  const VideoTask task({.clips = Clips::own, .data = folder / "a.npy", .frames = 2, .batch = 2});
  CHECK(grays_of_set(task, HeldOut::validation) == std::set<long>{32, 33, 34, 35});
  CHECK(grays_of_set(task, HeldOut::test) == std::set<long>{36, 37, 38, 39});
  CHECK_THAT(task.left_out(),
             contains("1 clip is divided in time, in pieces of 2 frames: 16 pieces of 1 part "
                      "for training, 2 pieces of 1 part for validation") &&
                 contains("0 frames are left out"));
  const VideoTask whole({.clips = Clips::own, .data = folder / "a.npy", .frames = 4, .batch = 2});
  CHECK_THAT(whole.left_out(), contains("1 piece of 1 part for test"));
  // Of the grays 0 to 31 of 255, 15 or 16 is best.
  double loss = 0;
  for (int gray = 0; gray < 32; ++gray) {
    const double error = std::abs(gray - 15) / 255.0;
    loss += (error + error * error) / 32;
  }
  CHECK(task.baseline_loss() == Approx(loss).epsilon(1e-12));
  CHECK_FALSE(task.solved({.loss = 0}));
}

TEST_CASE("a model file knows own clips again and their size", "[video][own-video]") {
  const TemporaryFolder folder;
  write_text(folder / "a.npy", npy("|u1", "40, 7, 9", raw_bytes(frame_bytes(40))));
  const VideoOptions options{.clips = Clips::own, .data = folder / "a.npy", .frames = 2, .batch = 2};
  const VideoTask task(options);
  const std::vector<TaskPart> parts = task.parts();
  REQUIRE(parts.size() == 2);
  CHECK(parts[1] == TaskPart{"frame_size", "7 x 9"});
  // Without the data the size is known, and what needs them says so.
  const auto without = make_task(task.config(), {.parts = parts});
  CHECK(without->data().height == clip_height);
  CHECK(without->data().width == clip_width);
  CHECK_THAT(error_message<FileError>([&] { without->load(); }), contains("need --data"));
  // The same bytes as frames of another size.
  write_text(folder / "a.npy", npy("|u1", "40, 9, 7", raw_bytes(frame_bytes(40))));
  const auto turned = make_task(task.config(), {.data = folder / "a.npy", .parts = parts});
  CHECK_THAT(error_message<FileError>([&] { turned->load(); }), contains("other clips") && contains("9 x 7"));
  write_text(folder / "a.npy", npy("|u1", "41, 7, 9", raw_bytes(frame_bytes(41))));
  const auto changed = make_task(task.config(), {.data = folder / "a.npy", .parts = parts});
  CHECK_THAT(error_message<FileError>([&] { changed->load(); }), contains("other clips"));
  for (const char* text : {"7", "7 x", "7 x 9 x 2", "0 x 9", "-7 x 9", "7x9", "99999999 x 9", "7 x 9 "}) {
    CAPTURE(text);
    VideoOptions hostile = options;
    hostile.parts = {parts[0], {"frame_size", text}};
    CHECK_THAT(error_message<ValueError>([&] { VideoTask of(hostile); }), contains("rows and columns"));
  }
  CHECK_THAT(error_message<ValueError>([&] { VideoTask of({.data = "data/mnist"}); }),
             contains("data were given") && contains("--clips own"));
}

}  // namespace orthornn::testing
