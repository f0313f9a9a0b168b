package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/corral-exec/corral/api"
)

// Usage is the last hour of the gateway (api.UsageOfGateway), of a sandbox
// (api.UsageOfSandbox and its name) or of a node (api.UsageOfNode and its ID).
func (c *Client) Usage(ctx context.Context, of string) (api.Usage, error) {
	return ask[api.Usage](ctx, c, call{method: http.MethodGet, path: []string{"usage"}, query: url.Values{"of": {of}}}, nil)
}

// Findings are those of corral doctor on the gateway's machine, at most a minute old.
func (c *Client) Findings(ctx context.Context) (api.Findings, error) {
	return ask[api.Findings](ctx, c, get("doctor"), nil)
}
