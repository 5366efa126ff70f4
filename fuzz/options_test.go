package fuzz

import (
	"strconv"
	"strings"

	"queend/broker"
)

// setOption puts one setting into the options.
func setOption(o *broker.Options, s broker.Setting) {
	d := broker.DefaultOptions()
	number := func(at *int64, def int64) {
		*at = s.Int
		if s.Null {
			*at = def
		}
	}
	toggle := func(at *bool, def bool) {
		*at = s.Bool
		if s.Null {
			*at = def
		}
	}
	switch s.Name {
	case "leaseTime":
		number(&o.LeaseTime, d.LeaseTime)
	case "retryLimit":
		number(&o.RetryLimit, d.RetryLimit)
	case "deadLetterQueue":
		toggle(&o.DeadLetterQueue, d.DeadLetterQueue)
	case "dlqAfterMaxRetries":
		toggle(&o.DLQAfterMaxRetries, d.DLQAfterMaxRetries)
	case "delayedProcessing":
		number(&o.DelayedProcessing, 0)
	case "windowBuffer":
		number(&o.WindowBuffer, 0)
	case "retentionEnabled":
		toggle(&o.RetentionEnabled, false)
	case "retentionSeconds":
		number(&o.RetentionSeconds, 0)
	case "completedRetentionSeconds":
		number(&o.CompletedRetentionSeconds, 0)
	case "maxWaitTimeSeconds":
		number(&o.MaxWaitTimeSeconds, 0)
	case "minPopWaitTime":
		number(&o.MinPopWaitTime, 0)
	case "encryptionEnabled":
		toggle(&o.EncryptionEnabled, false)
	case "dedupWindowSeconds":
		number(&o.DedupWindowSeconds, d.DedupWindowSeconds)
	case "redeliveryDelayMs":
		number(&o.RedeliveryDelayMS, 0)
	case "redeliveryDelayMaxMs":
		number(&o.RedeliveryDelayMaxMS, 0)
	case "maxDeliveries":
		number(&o.MaxDeliveries, 0)
	case "requireLease":
		toggle(&o.RequireLease, false)
	}
}

func itoa(n int) string { return strconv.Itoa(n) }

func contains(s, part string) bool { return strings.Contains(s, part) }
