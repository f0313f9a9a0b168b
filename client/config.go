package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/corral-exec/corral/api"
)

type (
	// A Configuration is what the gateway's configuration file comes to for an agent.
	Configuration = api.Configuration
	// A ConfigChange changes one key of the file.
	ConfigChange = api.ConfigChange
	// ConfigChanged is what became of that.
	ConfigChanged = api.ConfigChanged
)

// Configuration is what applies to an agent, with where each value is from; of the empty
// agent, what applies to those without an entry of their own. With keys it has those
// alone, as corral config get shows them.
func (c *Client) Configuration(ctx context.Context, agent string, keys ...string) (Configuration, error) {
	return ask[Configuration](ctx, c, call{method: http.MethodGet, path: []string{"config"}, query: url.Values{"agent": {agent}, "key": keys}}, nil)
}

// ChangeConfiguration changes one key of the file, as corral config set does. It is an
// ErrConflict if the file has another version than the change names.
func (c *Client) ChangeConfiguration(ctx context.Context, change ConfigChange) (ConfigChanged, error) {
	return ask[ConfigChanged](ctx, c, call{method: http.MethodPatch, path: []string{"config"}, once: true, changes: true}, change)
}
