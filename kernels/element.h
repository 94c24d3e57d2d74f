// The arithmetic of `apply`, `nadamw` and their kin on one element: written once, so that every
// backend does the same operations in the same order. Compiled without contraction to fma
// everywhere.
#pragma once

#include "kernels/host_device.h"
#include "kernels/kernels.h"

namespace asyncmesh::kernels {

// What replaces w before the correction. The lossy form adds to this rank's own full precision only
// what the others' contributions changed.
ASYNCMESH_INLINE float lossy_target(float snapshot, float mean, float own) noexcept {
  return snapshot + (mean - own);
}

struct ApplyFactors {
  float keep;   // m
  float gain;   // 1 - m, or 1 for a first visit that takes the full drift
  float scale;  // lambda
};

ASYNCMESH_INLINE float ema_next(const ApplyFactors& factors, float ema, float drift) noexcept {
  return factors.keep * ema + factors.gain * drift;
}

// Whatever e holds before the first visit plays no part.
ASYNCMESH_INLINE float ema_first(const ApplyFactors& factors, float drift) noexcept {
  return factors.gain * drift;
}

ASYNCMESH_INLINE float corrected(const ApplyFactors& factors, float target, float step) noexcept {
  return target + factors.scale * step;
}

struct NadamwFactors {
  explicit NadamwFactors(const NadamwArgs& args)
      : decay(static_cast<float>(1.0 - args.lr * args.weight_decay)),
        gradient_scale(static_cast<float>(args.gradient_scale)),
        first_gain(static_cast<float>(1.0 - args.beta1)),
        second_keep(static_cast<float>(args.beta2)),
        second_gain(static_cast<float>(1.0 - args.beta2)),
        variance(static_cast<float>(args.variance_factor)),
        epsilon(static_cast<float>(args.epsilon)),
        gradient(static_cast<float>(-args.gradient_factor)),
        momentum(static_cast<float>(-args.momentum_factor)) {}

  float decay, gradient_scale, first_gain, second_keep, second_gain, variance, epsilon, gradient,
      momentum;
};

// The order of operations is that of torch.optim.NAdam. The first moment moves by a fraction of its
// distance to g: beta1 m + (1 - beta1) g would weigh it by two fp32 factors whose sum is not 1.
ASYNCMESH_INLINE void nadamw_element(const NadamwFactors& f, float& w, float gradient, float& m,
                                     float& v) noexcept {
  const float g = gradient * f.gradient_scale;
  m = m + f.first_gain * (g - m);
  v = f.second_keep * v + f.second_gain * g * g;
#ifdef __CUDA_ARCH__
  const float denominator = sqrtf(v * f.variance) + f.epsilon;
#else
  const float denominator = __builtin_sqrtf(v * f.variance) + f.epsilon;
#endif
  const float looked_ahead = w * f.decay + f.gradient * g / denominator;
  w = looked_ahead + f.momentum * m / denominator;
}

ASYNCMESH_INLINE float looked_ahead(float gamma, float w, float previous) noexcept {
  return w + gamma * (w - previous);
}

struct NesterovFactors {
  NesterovFactors(float gamma_of, float lr)
      : gamma(gamma_of),
        step(static_cast<float>(static_cast<double>(lr) * (1.0 - static_cast<double>(gamma_of)))) {}

  float gamma, step;
};

// The new w; the old one becomes `previous`.
ASYNCMESH_INLINE float nesterov_element(const NesterovFactors& f, float w, float previous,
                                        float gradient) noexcept {
  return looked_ahead(f.gamma, w, previous) - f.step * gradient;
}

struct AverageFactors {
  explicit AverageFactors(float decay)
      : keep(decay), gain(static_cast<float>(1.0 - static_cast<double>(decay))) {}

  float keep, gain;
};

ASYNCMESH_INLINE float averaged_element(const AverageFactors& f, float average, float w) noexcept {
  return f.keep * average + f.gain * w;
}

}  // namespace asyncmesh::kernels
