#pragma once

#include "cuda/core/launch.hpp"
#include "cuda/products/large_clusters.hpp"
#include "cuda/rollouts/persistent/octet_exchange.cuh"
#include "cuda/rollouts/persistent/persistent_rollout.cuh"
#include "cuda/rollouts/persistent/sequences_kernel.hpp"

namespace orthornn::cuda {

/// The recurrence in fp32 over a cluster of this shape.
template <Direction direction, ClusterShape cluster>
SequencesKernel cluster_kernel() {
  // A step takes longer than device memory does.
  constexpr int steps_ahead = 2, lanes = ClusterShape::lanes;
  using Tile = PersistentTile<lanes, cluster.size / lanes, ClusterShape::warp_rows, cluster.kept>;
  using Exchange = SequenceExchange<cluster.blocks, cluster.rows, cluster.group>;
  constexpr unsigned blocks = cluster.blocks, threads = Tile::threads(Exchange::rows);
  static_assert(threads / warp_size * ClusterShape::warp_rows == Exchange::rows,
                "a warp has the rows that it sends");
  return {
      persistent_rollout<direction, Tile, Exchange, cluster.group, cluster.groups, steps_ahead>,
      {.grid = blocks,
       .block = threads,
       .shared =
           persistent_rollout_bytes<direction, Tile, Exchange, cluster.group, cluster.groups, steps_ahead>,
       .cluster = blocks},
      cluster.sequences(),
      multiply_cycles<cluster.rows, cluster.size, cluster.sequences()>};
}

}  // namespace orthornn::cuda
