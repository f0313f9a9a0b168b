package cli

import (
	"os"
	"runtime"
	"runtime/debug"
	"sync"
)

// lateCollection is GOGC until the first garbage collection: that is due at 32 MB of
// memory in use, and not at 4 MB.
const lateCollection = 800

// collectLate spares a short command the first garbage collection, which takes some
// milliseconds and would free little. After it, or after the function that is
// returned was called, it is as always.
func collectLate() (asUsual func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" { // the operator has set it
		return func() {}
	}
	usual := debug.SetGCPercent(lateCollection)
	asUsual = sync.OnceFunc(func() { debug.SetGCPercent(usual) })
	runtime.AddCleanup(new(*app), func(then func()) { then() }, asUsual)
	return asUsual
}

// stays is called by a command that runs for long.
func (a *app) stays() {
	if a.collectAsUsual != nil {
		a.collectAsUsual()
	}
}
