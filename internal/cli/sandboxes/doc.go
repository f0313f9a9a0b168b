// Package sandboxes has the commands that list, look at, use and remove sandboxes: corral
// sandbox. All but corral sandbox shell, which is corral exec.
package sandboxes

import "github.com/corral-exec/corral/internal/cli/app"

type commands struct{ *app.App }
