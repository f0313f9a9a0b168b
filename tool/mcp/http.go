package mcp

import (
	"net/http"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/corral-exec/corral/tool"
)

const (
	versionHeader = "MCP-Protocol-Version"
	// statelessSince is the protocol version from which on requests stand
	// alone. Versions are dates, and compare as text.
	statelessSince = "2026-07-28"

	// idleLimit is how long a client's session of the protocol is kept
	// without a request; it is longer than any call.
	idleLimit = time.Hour
	// resumeBytes bounds the memory for streams that may be resumed.
	resumeBytes = 32 << 20
)

// Handler returns the handler of an endpoint such as /mcp. It refuses requests of web
// pages of another origin and, on a loopback address, requests for another host (DNS
// rebinding). It does not authenticate. It serves one agent: mount one for each.
func (s *Server) Handler() http.Handler {
	server := func(*http.Request) *sdk.Server { return s.sdk }
	streams := sdk.NewMemoryEventStore(nil)
	streams.SetMaxBytes(resumeBytes)
	// A client of an older version cancels a request by another request. Only a
	// session knows which request is meant.
	stateful := sdk.NewStreamableHTTPHandler(server, &sdk.StreamableHTTPOptions{
		Logger: s.cfg.Log, EventStore: streams, SessionTimeout: idleLimit, MaxRequestBodyBytes: 2 * tool.MaxArguments,
	})
	old := s.bounded(stateful)
	// A newer one cancels by closing the request.
	stateless := sdk.NewStreamableHTTPHandler(server, &sdk.StreamableHTTPOptions{
		Logger: s.cfg.Log, Stateless: true, PropagateRequestCancellation: true, MaxRequestBodyBytes: 2 * tool.MaxArguments,
	})
	return http.NewCrossOriginProtection().Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(versionHeader) >= statelessSince {
			stateless.ServeHTTP(w, r)
		} else {
			old.ServeHTTP(w, r)
		}
	}))
}
