#include "capi/guard.h"
#include "capi/handles.h"
#include "capi/versioned.h"

using namespace asyncmesh;
using namespace asyncmesh::capi;

namespace {

constexpr asyncmesh_optimiser_config_t kDefaults = ASYNCMESH_OPTIMISER_CONFIG_INIT;
constexpr asyncmesh_optimiser_step_t kStepDefaults = ASYNCMESH_OPTIMISER_STEP_INIT;

Status read_config(const asyncmesh_optimiser_config_t* theirs, size_t tensors, NadamwConfig* out) {
  asyncmesh_optimiser_config_t mine = kDefaults;
  ASYNCMESH_RETURN_IF_ERROR(copy_in(theirs, &mine));
  if (mine.look_ahead > 1) return invalid("look_ahead is neither 0 nor 1");
  out->look_ahead = mine.look_ahead == 1;
  out->beta1 = mine.beta1;
  out->beta2 = mine.beta2;
  out->epsilon = mine.epsilon;
  out->psi = mine.psi;
  out->weight_decay = mine.weight_decay;
  if (mine.decay != nullptr) out->decay.assign(mine.decay, mine.decay + tensors);
  if (mine.lr_scale != nullptr) out->lr_scale.assign(mine.lr_scale, mine.lr_scale + tensors);
  return {};
}

}  // namespace

asyncmesh_status_t asyncmesh_optimiser_create(
    asyncmesh_region_t* weights, asyncmesh_region_t* gradients,
    const asyncmesh_optimiser_config_t* config,
    asyncmesh_optimiser_t** optimiser_out) ASYNCMESH_NOEXCEPT {
  return guard([&]() -> Status {
    ASYNCMESH_RETURN_IF_ERROR(usable(weights, "weights"));
    ASYNCMESH_RETURN_IF_ERROR(usable(gradients, "gradients"));
    if (optimiser_out == nullptr) return invalid("optimiser_out is null");
    NadamwConfig mine;
    ASYNCMESH_RETURN_IF_ERROR(::read_config(config, weights->object->tensors(), &mine));
    auto optimiser = core::OptimiserObject::create(weights->object, gradients->object, mine);
    if (!optimiser.ok()) return optimiser.status();
    *optimiser_out = new asyncmesh_optimiser{std::move(optimiser.value())};
    return {};
  });
}

asyncmesh_status_t asyncmesh_optimiser_step(asyncmesh_optimiser_t* optimiser,
                                            const asyncmesh_optimiser_step_t* step,
                                            double* norm_out) ASYNCMESH_NOEXCEPT {
  return guard([&]() -> Status {
    ASYNCMESH_RETURN_IF_ERROR(usable(optimiser, "optimiser"));
    if (step == nullptr) return invalid("step is null: it has no default learning rate");
    asyncmesh_optimiser_step_t mine = kStepDefaults;
    ASYNCMESH_RETURN_IF_ERROR(copy_in(step, &mine));
    if (mine.skip > 1) return invalid("skip is neither 0 nor 1");
    if (mine.mirror != nullptr) ASYNCMESH_RETURN_IF_ERROR(usable(mine.mirror, "mirror"));
    NadamwStep args;
    args.lr = mine.lr;
    args.gradient_scale = mine.gradient_scale;
    args.clip_norm = mine.clip_norm;
    args.skip = mine.skip == 1;
    args.want_norm = norm_out != nullptr;
    const core::Region* mirror = mine.mirror == nullptr ? nullptr : mine.mirror->object.get();
    return optimiser->object->step(args, mirror, norm_out);
  });
}

asyncmesh_status_t asyncmesh_optimiser_save(asyncmesh_optimiser_t* optimiser, void* buffer,
                                            uint64_t capacity,
                                            uint64_t* need_out) ASYNCMESH_NOEXCEPT {
  return guard([&]() -> Status {
    ASYNCMESH_RETURN_IF_ERROR(usable(optimiser, "optimiser"));
    if (need_out == nullptr) return invalid("need_out is null");
    if (buffer == nullptr && capacity != 0) return invalid("buffer is null");
    *need_out = optimiser->object->state_bytes();
    return optimiser->object->save({static_cast<std::byte*>(buffer), capacity});
  });
}

asyncmesh_status_t asyncmesh_optimiser_load(asyncmesh_optimiser_t* optimiser, const void* buffer,
                                            uint64_t size) ASYNCMESH_NOEXCEPT {
  return guard([&]() -> Status {
    ASYNCMESH_RETURN_IF_ERROR(usable(optimiser, "optimiser"));
    if (buffer == nullptr) return invalid("buffer is null");
    return optimiser->object->load({static_cast<const std::byte*>(buffer), size});
  });
}

void asyncmesh_optimiser_destroy(asyncmesh_optimiser_t* optimiser) ASYNCMESH_NOEXCEPT {
  destroy(optimiser);
}
