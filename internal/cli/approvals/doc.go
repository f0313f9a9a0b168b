// Package approvals has the commands by which a person answers for commands of agents:
// corral approvals.
package approvals

import "github.com/corral-exec/corral/internal/cli/app"

type commands struct{ *app.App }
