#include "perf/micro/lane_bench_ucp.h"

#include <cstring>

namespace asyncmesh::bench {

void check(ucs_status_t status, const char* what) {
  if (status != UCS_OK) give_up(what, ucs_status_string(status));
}

UcpPair::UcpPair(const ProcessPair& pair, const Medium& medium, uint64_t features) : pair_(pair) {
  ucp_config_t* config = nullptr;
  check(ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
  check(ucp_config_modify(config, "TLS", medium.tls == "tcp" ? "tcp" : "posix,sysv"), "TLS");
  check(ucp_config_modify(config, "RNDV_THRESH", "8000"), "RNDV_THRESH");
  if (medium.tls == "shm")
    check(ucp_config_modify(config, "MM_ERROR_HANDLING", "y"), "MM_ERROR_HANDLING");
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = features;
  check(ucp_init(&params, config, &context_), "ucp_init");
  ucp_config_release(config);
  ucp_worker_params_t worker_params{};
  worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker_params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  check(ucp_worker_create(context_, &worker_params, &worker_), "ucp_worker_create");
  ucp_address_t* address = nullptr;
  size_t bytes = 0;
  check(ucp_worker_get_address(worker_, &address, &bytes), "ucp_worker_get_address");
  const Bytes theirs = pair.exchange({reinterpret_cast<const std::byte*>(address), bytes});
  ucp_worker_release_address(worker_, address);
  ucp_ep_params_t ep_params{};
  ep_params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                         UCP_EP_PARAM_FIELD_ERR_HANDLER;
  ep_params.address = reinterpret_cast<const ucp_address_t*>(theirs.data());
  ep_params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  ep_params.err_handler.cb = [](void*, ucp_ep_h, ucs_status_t status) {
    check(status, "endpoint");
  };
  check(ucp_ep_create(worker_, &ep_params, &endpoint_), "ucp_ep_create");
}

// Neither side goes before the other is done with it.
UcpPair::~UcpPair() {
  pair_.exchange({});
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  const ucs_status_ptr_t request = ucp_ep_close_nbx(endpoint_, &param);
  for (int round = 0; round < 64; ++round) progress();
  if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
  ucp_worker_destroy(worker_);
  ucp_cleanup(context_);
}

}  // namespace asyncmesh::bench
