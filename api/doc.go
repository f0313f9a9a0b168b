// Package api is what the gateway's HTTP server (package gateway) and its Go
// client (package client) must agree on: names of headers and media types, the
// small requests and answers, what explain says, how errors of package corral
// travel, and the frames in which a log does.
//
// It holds no logic of either side. docs/reference/http.md is the API for its users.
package api
