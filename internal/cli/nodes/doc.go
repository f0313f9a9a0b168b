// Package nodes has the commands by which a gateway's nodes are paired and managed: corral
// nodes.
package nodes

import "github.com/corral-exec/corral/internal/cli/app"

type commands struct{ *app.App }
