#include "orthornn/tasks/video_task.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "orthornn/core/error.hpp"
#include "orthornn/tasks/task_options.hpp"
#include "support/catch.hpp"
#include "support/error_message.hpp"
#include "support/idx_writer.hpp"
#include "support/temporary_folder.hpp"

namespace orthornn::testing {
namespace {

constexpr Index size = 8, pixels = size * size, image_pixels = 40 * 30;

/// Row and column of a square, whose pixels alone are white. Checks that it is one.
std::pair<Index, Index> place_of(TensorView<const float> frame) {
  const Index first = std::find(frame.begin(), frame.end(), 1.0F) - frame.begin();
  const Index top = first / size, left = first % size;
  for (Index i = 0; i < pixels; ++i) {
    const bool inside = i / size >= top && i / size < top + VideoTask::square_size && i % size >= left &&
                        i % size < left + VideoTask::square_size;
    CHECK(frame(i) == (inside ? 1.0F : 0.0F));
  }
  return {top, left};
}

std::vector<float> values_of(const Task& task, std::uint64_t step) {
  Batch batch;
  task.training_batch(step, batch);
  const TensorView<const float> values = batch.needed_reals(batch_names::values);
  return {values.begin(), values.end()};
}

/// Images of 40 x 30 pixels with one gray each: first, first + 1, .. Two of them in a frame nearly always
/// overlap.
void write_grays(const std::filesystem::path& folder, const std::string& set, std::uint32_t count,
                 std::uint8_t first) {
  std::vector<std::uint8_t> grays(count * image_pixels), labels(count);
  for (std::size_t i = 0; i < grays.size(); ++i)
    grays[i] = static_cast<std::uint8_t>(first + i / image_pixels);
  write_plain(folder / (set + "-images-idx3-ubyte"), idx_bytes({count, 40, 30}, grays));
  write_plain(folder / (set + "-labels-idx1-ubyte"), idx_bytes({count}, labels));
}

std::vector<double> metrics_of(const Tensor<float>& outputs, const Tensor<float>& values) {
  const VideoTask task({.frames = 2});
  Batch batch;
  batch.reals(batch_names::values) = values.copy();
  Tensor<double> sums(task.counters());
  // The same frames twice have the same means.
  for (int i = 0; i < 2; ++i) task.count_metrics(outputs, batch, sums);
  CHECK(sums(0, 1) == static_cast<double>(2 * outputs.shape()[1]));
  return task.metric_values(sums, 0);
}

}  // namespace

TEST_CASE("a clip is a square that bounces, and its targets are the next frames", "[video]") {
  const VideoTask task({.frames = 12, .batch = 40});
  Batch batch;
  task.training_batch(3, batch);
  const TensorView<const float> features = std::as_const(batch).reals(batch_names::features),
                                values = std::as_const(batch).reals(batch_names::values);
  REQUIRE(features.shape() == Shape{11, 40, pixels});
  REQUIRE(values.shape() == features.shape());
  constexpr Index most = size - VideoTask::square_size;
  std::set<Index> steps_of_first;
  for (Index b = 0; b < 40; ++b) {
    for (Index t = 1; t < 11; ++t) {
      CHECK(std::equal(features[t][b].begin(), features[t][b].end(), values[t - 1][b].begin()));
      const auto [top, left] = place_of(features[t][b]);
      const auto [top_before, left_before] = place_of(features[t - 1][b]);
      const auto [top_after, left_after] = place_of(values[t][b]);
      for (const auto& [before, now, after] :
           {std::tuple{top_before, top, top_after}, {left_before, left, left_after}}) {
        CHECK(std::abs(now - before) == 1);
        CHECK(after - now == (now == 0 ? 1 : now == most ? -1 : now - before));
      }
    }
    const auto [top, left] = place_of(features[0][b]);
    steps_of_first.insert(top * size + left);
  }
  CHECK(steps_of_first.size() > 10);
}

TEST_CASE("clips are a function of the seed, the set and the number", "[video]") {
  const VideoTask task({.batch = 8, .seed = 5}), same({.batch = 8, .seed = 5}),
      other({.batch = 8, .seed = 6});
  CHECK(values_of(task, 2) == values_of(same, 2));
  CHECK(values_of(task, 2) != values_of(task, 3));
  CHECK(values_of(task, 2) != values_of(other, 2));
  const auto held_out = [](const VideoTask& of, HeldOut set, Index number) {
    Batch batch;
    of.evaluation_batch(set, number, batch);
    const TensorView<const float> values = batch.needed_reals(batch_names::values);
    return std::vector<float>(values.begin(), values.end());
  };
  CHECK(held_out(task, HeldOut::validation, 0) == held_out(same, HeldOut::validation, 0));
  CHECK(held_out(task, HeldOut::validation, 0) != held_out(other, HeldOut::validation, 0));
  CHECK(held_out(task, HeldOut::test, 0) == held_out(other, HeldOut::test, 0));
  CHECK(held_out(task, HeldOut::test, 0) != held_out(task, HeldOut::test, 1));
  // Batches of another size have the same test clips.
  const VideoTask large({.batch = 512});
  CHECK(large.evaluation_batches(HeldOut::test) == 2);
  Batch last;
  large.evaluation_batch(HeldOut::test, 1, last);
  CHECK(last.needed_reals(batch_names::values).shape() == Shape{19, 1000 - 512, pixels});
  CHECK(task.evaluation_batches(HeldOut::validation) == 256 / 8);
}

TEST_CASE("the baseline of bouncing squares is the loss of the best still frame", "[video]") {
  const VideoTask task({.batch = 256});
  Batch batch;
  task.evaluation_batch(HeldOut::validation, 0, batch);
  const TensorView<const float> values = batch.needed_reals(batch_names::values);
  const double frames = 19 * 256;
  double sum = 0;
  for (Index i = 0; i < pixels; ++i) {
    double white = 0;
    for (Index frame = 0; frame < 19 * 256; ++frame)
      white += static_cast<double>(values.data()[frame * pixels + i]);
    double best = 2;
    for (double v = 0; v <= 1; v += 0.01)
      best = std::min(best, (white * (1 - v + (1 - v) * (1 - v)) + (frames - white) * (v + v * v)) / frames);
    sum += best;
  }
  // 256 clips have the shares of 100 phases up to a few per cent.
  CHECK(task.baseline_loss() == Approx(sum / static_cast<double>(pixels)).epsilon(0.03));
  CHECK(task.solved({.loss = task.baseline_loss() / 2.1}));
  CHECK_FALSE(task.solved({.loss = task.baseline_loss() / 1.9}));
}

TEST_CASE("a clip of mnist is two images that move and bounce, of its own set alone", "[video]") {
  const TemporaryFolder folder;
  // The first training image, of gray 1, is for validation.
  write_grays(folder.path(), "train", 11, 1);
  write_grays(folder.path(), "t10k", 5, 101);
  const VideoTask task({.clips = Clips::mnist, .data = folder.path(), .frames = 30, .batch = 6});
  Batch batch;
  const auto grays = [&] {
    std::set<long> found;
    for (const float x : std::as_const(batch).needed_reals(batch_names::values))
      found.insert(std::lround(x * 255));
    return found;
  };
  task.evaluation_batch(HeldOut::validation, 0, batch);
  CHECK(grays() == std::set<long>{0, 1});
  task.evaluation_batch(HeldOut::test, 0, batch);
  CHECK(*std::next(grays().begin()) >= 101);
  CHECK(*grays().rbegin() <= 105);
  task.training_batch(0, batch);
  CHECK(*std::next(grays().begin()) >= 2);
  CHECK(*grays().rbegin() <= 11);

  const TensorView<const float> values = std::as_const(batch).reals(batch_names::values);
  REQUIRE(values.shape() == Shape{29, 6, 64 * 64});
  Index followed = 0;
  for (Index b = 0; b < 6; ++b) {
    // Nothing hides the brighter image. If it is there twice, no place is its own.
    std::vector<Index> rows;
    for (Index t = 0; t < 29; ++t) {
      const TensorView<const float> frame = values[t][b];
      const float brightest = *std::max_element(frame.begin(), frame.end());
      const auto seen = std::count(frame.begin(), frame.end(), brightest);
      CHECK(seen >= image_pixels);
      if (seen > image_pixels) break;
      rows.push_back((std::find(frame.begin(), frame.end(), brightest) - frame.begin()) / 64);
    }
    if (rows.size() != 29) continue;
    ++followed;
    std::map<Index, int> speeds;
    for (std::size_t t = 1; t < rows.size(); ++t) ++speeds[std::abs(rows[t] - rows[t - 1])];
    CHECK(speeds.rbegin()->first >= 1);
    CHECK(speeds.rbegin()->first <= 4);
    // It bounces five times at most on its way of up to 28 times 4 pixels.
    CHECK(speeds.rbegin()->second > 20);
  }
  CHECK(followed > 2);
  CHECK(task.baseline_loss() == 0.0918);
}

TEST_CASE("clips of mnist are made of the images of the model file alone", "[video]") {
  const TemporaryFolder folder;
  write_grays(folder.path(), "train", 11, 1);
  write_grays(folder.path(), "t10k", 5, 101);
  const VideoTask task({.clips = Clips::mnist, .data = folder.path(), .batch = 6});
  const std::vector<TaskPart> parts = task.parts();
  REQUIRE(parts.size() == 1);
  const auto again = make_task(task.config(), {.batch = 6, .data = folder.path(), .parts = parts});
  CHECK(values_of(*again, 0) == values_of(task, 0));
  write_grays(folder.path(), "t10k", 5, 102);
  const auto changed = make_task(task.config(), {.batch = 6, .data = folder.path(), .parts = parts});
  CHECK_THAT(error_message<FileError>([&] { changed->load(); }), contains("other images"));
  CHECK_THAT(error_message<ValueError>([&] { VideoTask of({.parts = parts}); }), contains("squares"));
  CHECK_THAT(error_message<FileError>([&] { VideoTask({.clips = Clips::mnist}).load(); }),
             contains("task video") && contains("no folder"));
}

TEST_CASE("frames are measured by MSE, MAE, SSIM and PSNR", "[video]") {
  Tensor<float> a({1, 2, pixels}), b({1, 2, pixels});
  for (Index i = 0; i < pixels; ++i) {
    a(0, 0, i) = static_cast<float>(i % 7) / 8;
    b(0, 0, i) = static_cast<float>(i % 5) / 8;
    a(0, 1, i) = b(0, 1, i) = static_cast<float>(i % 3) / 4;
  }
  double squared = 0, absolute = 0;
  for (Index i = 0; i < pixels; ++i) {
    const double error = static_cast<double>(i % 7 - i % 5) / 8;
    squared += error * error / static_cast<double>(pixels);
    absolute += std::abs(error) / static_cast<double>(pixels);
  }
  // structural_similarity(a, b, data_range=1) of scikit-image 0.26 for the first frame.
  constexpr double similarity = -0.022569803890036544;
  const std::vector<double> found = metrics_of(a, b);
  // The second frame is right: MSE and MAE 0, SSIM 1, PSNR 100.
  CHECK(found[0] == Approx(squared / 2).epsilon(1e-12));
  CHECK(found[1] == Approx(absolute / 2).epsilon(1e-12));
  CHECK(found[2] == Approx((similarity + 1) / 2).epsilon(1e-9));
  CHECK(found[3] == Approx((-10 * std::log10(squared) + 100) / 2).epsilon(1e-12));
}

TEST_CASE("SSIM and PSNR of a frame are those of scikit-image", "[video]") {
  // Of x and y as below, by scikit-image 0.26.0 and numpy 2.4.6, with i = numpy.arange(h * w):
  //   x = (i * 37 % 101 / 128).reshape(h, w); y = ((i * 37 + 5 * (i // w)) % 101 / 128).reshape(h, w)
  //   structural_similarity(x, y, data_range=1), peak_signal_noise_ratio(x, y, data_range=1)
  struct Recorded {
    Index height, width;
    double ssim, psnr;
  };
  const Recorded recorded = GENERATE(Recorded{7, 7, 0.34029585456267525, 11.562574101337521},
                                     Recorded{9, 12, 0.11107189335766217, 10.512502788650554},
                                     Recorded{64, 64, -0.006871402248286377, 10.032492556407604});
  const Index count = recorded.height * recorded.width;
  // The size of the frames is that of own clips.
  const VideoTask task(
      {.clips = Clips::own,
       .parts = {{"data", "none"},
                 {"frame_size", std::to_string(recorded.height) + " x " + std::to_string(recorded.width)}}});
  Tensor<float> x({1, 1, count});
  Batch batch;
  Tensor<float>& y = batch.reals(batch_names::values);
  y.resize(x.shape());
  for (Index i = 0; i < count; ++i) {
    x(0, 0, i) = static_cast<float>(i * 37 % 101) / 128;
    y(0, 0, i) = static_cast<float>((i * 37 + 5 * (i / recorded.width)) % 101) / 128;
  }
  Tensor<double> sums(task.counters());
  task.count_metrics(x, batch, sums);
  // The numbers are sums of 4096 at most, of numbers that floats hold exactly.
  CHECK(task.metric_values(sums, 0)[2] == Approx(recorded.ssim).epsilon(1e-9));
  CHECK(task.metric_values(sums, 0)[3] == Approx(recorded.psnr).epsilon(1e-12));
}

TEST_CASE("video comes back from its config and refuses what cannot be", "[video]") {
  const VideoTask task({.frames = 7, .batch = 3, .seed = 5});
  const auto rebuilt = make_task(task.config(), {.batch = 3, .seed = 5});
  CHECK(rebuilt->config() == task.config());
  CHECK(values_of(*rebuilt, 2) == values_of(task, 2));
  CHECK(task.with_length(30, 2)->length() == 30);
  const auto refusal = [](const VideoOptions& options) {
    return error_message<ValueError>([&] { VideoTask of(options); });
  };
  CHECK_THAT(refusal({.frames = 1}), contains("frames is 1") && contains("at least 2"));
  CHECK_THAT(refusal({.batch = 0}), contains("batch"));
  CHECK_THAT(refusal({.frames = Index{1} << 40}), contains("at most"));
}

}  // namespace orthornn::testing
