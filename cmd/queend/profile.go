package main

import (
	"fmt"

	"github.com/pkg/profile"
)

// profiles are the modes of -profile.
var profiles = map[string]func(*profile.Profile){
	"cpu": profile.CPUProfile, "mem": profile.MemProfile, "mutex": profile.MutexProfile,
	"block": profile.BlockProfile, "trace": profile.TraceProfile,
}

// startProfile begins a profile, to be written under dir when stop is called.
// Signals are handled here and not by the library, which would end the
// process before the log is closed.
func startProfile(mode, dir string) (stop func(), err error) {
	if mode == "" {
		return func() {}, nil
	}
	option, ok := profiles[mode]
	if !ok {
		return nil, fmt.Errorf("%q is not cpu, mem, mutex, block or trace", mode)
	}
	return profile.Start(option, profile.ProfilePath(dir+"-profile"), profile.NoShutdownHook, profile.Quiet).Stop, nil
}
