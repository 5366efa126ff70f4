package api

import (
	"strings"

	"github.com/valyala/fasthttp"

	"queend/api/jsonscan"
	"queend/broker"
)

// subscriptionSet is the answer of POST …/:group/subscription.
type subscriptionSet struct {
	Success bool   `json:"success"`
	Group   string `json:"consumerGroup"`
	At      string `json:"newTimestamp"`
	Rows    int    `json:"rowsUpdated"`
}

// setSubscription answers POST /api/v1/consumer-groups/:group/subscription.
func (r *request) setSubscription() {
	text := ""
	err := r.readBody(true, func(key string, v jsonscan.Value) (err error) {
		if key == "subscriptionTimestamp" {
			err = readText(key, v, &text)
		}
		return err
	})
	if err != nil {
		r.badBody(err)
		return
	}
	if strings.TrimSpace(text) == "" {
		r.badRequest("subscriptionTimestamp is required")
		return
	}
	at, ok := broker.ParseTime(strings.TrimSpace(text))
	if !ok {
		r.badRequest("subscriptionTimestamp is not an ISO-8601 time with a zone")
		return
	}
	ctx, cancel := r.within()
	defer cancel()
	group := r.group()
	rows, err := r.broker.SetSubscription(ctx, r.tenant, group, at)
	if err != nil {
		r.unmanaged(err, "subscription")
		return
	}
	r.answer(fasthttp.StatusOK, subscriptionSet{true, group, text, rows})
}

// seekBody is where a seek goes, as sent.
type seekBody struct {
	broker.SeekTarget
	timestamp *string // as sent
}

const noSeekTarget = "Must specify toEnd=true or a timestamp"

// readSeek reads the body of a seek; nothing in it means the end where
// endByDefault is set. False when it has answered with a refusal.
func (r *request) readSeek(endByDefault bool) (seek seekBody, ok bool) {
	asked := false
	err := r.readBody(endByDefault, func(key string, v jsonscan.Value) error {
		switch key {
		case "toEnd":
			asked = true
			return readBool(key, v, &seek.ToEnd)
		case "timestamp":
			asked = true
			seek.timestamp = new(string)
			if err := readTime(key, v, &seek.At); err != nil {
				return err
			}
			return readText(key, v, seek.timestamp)
		}
		return nil
	})
	if err != nil {
		r.badBody(err)
		return seek, false
	}
	if !asked && endByDefault {
		seek.ToEnd = true
	}
	if seek.ToEnd {
		seek.timestamp = nil
	} else if seek.timestamp == nil {
		r.badRequest(noSeekTarget)
		return seek, false
	}
	return seek, true
}

// noQueueToSeek says that a seek found no partition.
type noQueueToSeek struct {
	Success    bool   `json:"success"`
	Error      string `json:"error"`
	Group      string `json:"consumerGroup"`
	Queue      string `json:"queueName"`
	Partitions int    `json:"partitionsUpdated"`
}

// queueSought is the answer of a seek on a queue.
type queueSought struct {
	Success    bool    `json:"success"`
	Group      string  `json:"consumerGroup"`
	Queue      string  `json:"queueName"`
	ToEnd      bool    `json:"seekToEnd"`
	Timestamp  *string `json:"targetTimestamp"`
	Partitions int     `json:"partitionsUpdated"`
}

// seekQueue answers POST /api/v1/consumer-groups/:group/queues/:queue/seek.
func (r *request) seekQueue() {
	seek, ok := r.readSeek(false)
	if !ok {
		return
	}
	ctx, cancel := r.within()
	defer cancel()
	group, queue := r.group(), r.param("queue")
	n, err := r.broker.SeekQueue(ctx, r.tenant, group, queue, seek.SeekTarget)
	switch {
	case err != nil:
		r.unmanaged(err, "seek")
	case n == 0:
		r.answer(fasthttp.StatusNotFound, noQueueToSeek{false, "Queue not found or has no partitions", group, queue, 0})
	default:
		r.answer(fasthttp.StatusOK, queueSought{true, group, queue, seek.ToEnd, seek.timestamp, n})
	}
}

// noPartitionToSeek says that a seek did not find its partition.
type noPartitionToSeek struct {
	Success bool   `json:"success"`
	Error   string `json:"error"`
}

// partitionSought is the answer of a seek on a partition.
type partitionSought struct {
	Success   bool    `json:"success"`
	Group     string  `json:"consumerGroup"`
	Queue     string  `json:"queueName"`
	Partition string  `json:"partitionName"`
	ToEnd     bool    `json:"seekToEnd"`
	Timestamp *string `json:"targetTimestamp"`
	Updated   bool    `json:"updated"`
}

// seekPartition answers POST …/queues/:queue/partitions/:partition/seek.
func (r *request) seekPartition() {
	seek, ok := r.readSeek(true)
	if !ok {
		return
	}
	ctx, cancel := r.within()
	defer cancel()
	group, queue, partition := r.group(), r.param("queue"), r.param("partition")
	if partition == "" {
		partition = broker.DefaultPartition
	}
	found, err := r.broker.SeekPartition(ctx, r.tenant, group, queue, partition, seek.SeekTarget)
	switch {
	case err != nil:
		r.unmanaged(err, "seek")
	case !found:
		r.answer(fasthttp.StatusNotFound, noPartitionToSeek{false, "Partition not found"})
	default:
		r.answer(fasthttp.StatusOK, partitionSought{true, group, queue, partition, seek.ToEnd, seek.timestamp, true})
	}
}

// deleteGroup answers DELETE /api/v1/consumer-groups/:group.
func (r *request) deleteGroup() { r.deleteGroupOn(nil) }

// deleteGroupOnQueue answers DELETE …/:group/queues/:queue.
func (r *request) deleteGroupOnQueue() {
	queue := r.param("queue")
	r.deleteGroupOn(&queue)
}

// groupDeleted says what of a group is gone.
type groupDeleted struct {
	Success    bool    `json:"success"`
	Group      string  `json:"consumerGroup"`
	Queue      *string `json:"queueName,omitempty"`
	Partitions int     `json:"deletedPartitions"`
	Metadata   bool    `json:"metadataDeleted"`
}

func (r *request) deleteGroupOn(queue *string) {
	metadata := r.query.flag("deleteMetadata", true)
	if r.badQuery() {
		return
	}
	ctx, cancel := r.within()
	defer cancel()
	group := r.group()
	n, err := r.broker.DeleteGroup(ctx, r.tenant, group, queue, metadata)
	if err != nil {
		r.unmanaged(err, "delete")
		return
	}
	r.answer(fasthttp.StatusOK, groupDeleted{true, group, queue, n, metadata})
}
