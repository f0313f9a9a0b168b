package policy
func carrier(argv []Word) (string, bool) { return "", false }
