package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/IBM/sarama"
)

type saramaClient struct {
	brokers  []string
	admin    sarama.ClusterAdmin
	producer sarama.SyncProducer
}

func saramaConfig() *sarama.Config {
	config := sarama.NewConfig()
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Return.Errors = true
	return config
}

func newSarama(bootstrap string) (client, error) {
	brokers := strings.Split(bootstrap, ",")
	admin, err := sarama.NewClusterAdmin(brokers, saramaConfig())
	if err != nil {
		return nil, err
	}
	producer, err := sarama.NewSyncProducer(brokers, saramaConfig())
	return &saramaClient{brokers, admin, producer}, err
}

func (c *saramaClient) create(topic string) error {
	return c.admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1}, false)
}

func (c *saramaClient) produce(topic string, partition int, values ...string) error {
	messages := make([]*sarama.ProducerMessage, len(values))
	for i, value := range values {
		messages[i] = &sarama.ProducerMessage{
			Topic: topic, Partition: int32(partition), Value: sarama.StringEncoder(value),
		}
	}
	return c.producer.SendMessages(messages)
}

func (c *saramaClient) committed(group, topic string) (found [partitions]int64, err error) {
	wanted := map[string][]int32{topic: {0, 1, 2, 3}}
	answer, err := c.admin.ListConsumerGroupOffsets(group, wanted)
	if err != nil {
		return found, err
	}
	for partition := range partitions {
		found[partition] = answer.GetBlock(topic, int32(partition)).Offset
	}
	return found, nil
}

func (c *saramaClient) join(group, topic string) (member, error) {
	consumer, err := sarama.NewConsumerGroup(c.brokers, group, saramaConfig())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	one := &saramaMember{make(chan record), consumer, cancel, make(chan struct{})}
	go one.run(ctx, topic)
	go func() {
		for err := range consumer.Errors() {
			fmt.Fprintln(os.Stderr, "sarama:", err)
		}
	}()
	return one, nil
}

type saramaMember struct {
	found    chan record
	consumer sarama.ConsumerGroup
	cancel   context.CancelFunc
	done     chan struct{}
}

func (m *saramaMember) records() <-chan record { return m.found }

// Consume returns with every rebalance.
func (m *saramaMember) run(ctx context.Context, topic string) {
	defer close(m.done)
	for ctx.Err() == nil {
		if err := m.consumer.Consume(ctx, []string{topic}, m); err != nil {
			fmt.Fprintln(os.Stderr, "sarama:", err)
			if errors.Is(err, sarama.ErrClosedConsumerGroup) {
				return
			}
		}
	}
}

func (m *saramaMember) stop() error {
	m.cancel()
	<-m.done
	return m.consumer.Close()
}

func (m *saramaMember) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (m *saramaMember) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m *saramaMember) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case each, open := <-claim.Messages():
			if !open {
				return nil
			}
			select {
			case m.found <- record{int(each.Partition), each.Offset, string(each.Value)}:
				session.MarkMessage(each, "")
				session.Commit()
			case <-session.Context().Done():
				return nil
			}
		case <-session.Context().Done():
			return nil
		}
	}
}
