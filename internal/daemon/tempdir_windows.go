package daemon

import "os"

// lockDir locks nothing: no commands run here, so that none leave a directory.
func lockDir(string) (*os.File, error) { return os.Open(os.DevNull) }
