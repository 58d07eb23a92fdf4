#pragma once

#include "orthornn/core/device.hpp"

namespace orthornn {

/// What the kernels of one owner (a model) find wrong, apart from what those of others find on the same GPU.
/// On the CPU, where operations throw at once, it is nothing.
class FaultDomain {
 public:
  explicit FaultDomain(Device device);
  ~FaultDomain();
  FaultDomain(const FaultDomain&) = delete;
  FaultDomain& operator=(const FaultDomain&) = delete;

  /// While it lives, kernels that are started report to the domain, and whatever waits for the device throws
  /// what the domain has and nothing else. Scopes may nest.
  class Scope {
   public:
    explicit Scope(const FaultDomain& domain);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Device device_;
    int before_ = 0;
  };

 private:
  Device device_;
  int number_ = 0;
};

}  // namespace orthornn
