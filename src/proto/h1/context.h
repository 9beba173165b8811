// What all HTTP/1 connections of a worker share.
#pragma once

#include <cstddef>
#include <span>

#include "corehttpd/http/services.h"
#include "corehttpd/proto/connection_set.h"
#include "proto/h1/head_writer.h"
#include "proto/h1/request.h"

namespace corehttpd::h1 {

class Connection;

struct Context {
  Context(http::Services& the_services, proto::ConnectionSet& the_connections)
      : services(the_services), connections(the_connections), writer(the_services.clock) {}
  http::Services& services;
  proto::ConnectionSet& connections;
  RequestPool requests;
  HeadWriter writer;
  // Within Connection::on_received(): whose call it is, and what of its bytes nobody has used yet.
  // Here, because connections are many and only one receives at a time.
  struct Receiving {
    const Connection* connection = nullptr;
    std::span<const std::byte> rest;
  } receiving;
};

}  // namespace corehttpd::h1
