#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <list>
#include <string>
#include <vector>

#include "orthornn/core/tensor.hpp"
#include "orthornn/tasks/video_task.hpp"
#include "tasks/video/own_clips.hpp"

namespace orthornn {

/// What the files of a VideoTask have, on the host and wherever batches were asked for.
class VideoTask::Files {
 public:
  struct Stored {
    Device device = Device::cpu();
    /// Images of MNIST, [count, rows, columns].
    Tensor<std::uint8_t> training = {}, test = {};
    /// Pixels of own clips, frame after frame; one of the two is empty.
    TensorView<const std::uint8_t> bytes = {};
    TensorView<const float> reals = {};
    /// Their memory on a GPU; on the host the clips themselves have it.
    Tensor<std::uint8_t> copied_bytes = {};
    Tensor<float> copied_reals = {};
  };

  /// Reads the data. Throws FileError.
  explicit Files(const VideoOptions& options);

  const std::string& checksum() const { return checksum_; }
  const OwnClips& own() const { return own_; }
  const Stored& on(Device device);
  /// Mean loss of the best frame of one gray for own clips' frames, `count` from each `first` on, among the
  /// grays of 8 bits.
  double loss_of_best_gray(const std::vector<std::int64_t>& first, Index count) const;

 private:
  void read_mnist(const VideoOptions& options);
  void read_own(const VideoOptions& options);

  std::string checksum_;
  OwnClips own_;
  std::list<Stored> stored_;
};

/// Pieces of videos for training, validation and test.
struct ClipDivision {
  /// First frame of each piece, of training, validation and test data.
  std::array<std::vector<std::int64_t>, 3> first = {};
  /// A sentence for readers.
  std::string text = {};
};

/// Cuts clips of these lengths into pieces of `frames` frames, as VideoTask describes. `data` is named in
/// messages. Throws FileError where a set would have no piece.
ClipDivision divide_clips(const std::vector<Index>& lengths, Index frames, std::uint64_t seed,
                          const std::filesystem::path& data);

}  // namespace orthornn
