// What all HTTP/1 connections of a worker share.
#pragma once

#include "corehttpd/http/services.h"
#include "corehttpd/proto/connection_set.h"
#include "proto/h1/head_writer.h"
#include "proto/h1/request.h"

namespace corehttpd::h1 {

struct Context {
  Context(http::Services& the_services, proto::ConnectionSet& the_connections)
      : services(the_services), connections(the_connections), writer(the_services.clock) {}
  http::Services& services;
  proto::ConnectionSet& connections;
  RequestPool requests;
  HeadWriter writer;
};

}  // namespace corehttpd::h1
