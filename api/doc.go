// Package api is shared by the gateway's HTTP server (package gateway) and its Go
// client (package client): names of headers and media types, the small requests and
// answers, the shapes of explain, the encoding of errors of package corral, and the
// frames of a log.
//
// It holds no logic of either side. docs/reference/http.md is the API for its users.
package api
