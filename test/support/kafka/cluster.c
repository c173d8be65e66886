/*
 * A cluster of mock brokers, of librdkafka, that speak Kafka's wire protocol on ports of this machine, told by lines
 * on standard input what to do. Each command is answered by `ok`, or by `error` and why:
 *
 *   topic NAME PARTITIONS            make a topic
 *   refuse-topic NAME ERROR          answer so whenever the topic is asked for; 0 ends that
 *   errors API ERROR...              answer the next requests of this kind so, on any broker; 0 is a good answer
 *   cut API COUNT                    close the connection instead of answering the next requests of this kind
 *   rtt BROKER MS                    answer so much later
 *   down BROKER | up BROKER          close its connections and take none, until it is up
 *   leader TOPIC PARTITION BROKER    move a partition
 *   read                             give all messages of all topics, a line each, before `ok`
 *
 * `read` is a consumer of librdkafka, which knows nothing of whoever wrote the messages. Its lines have tabs between:
 * `message`, topic, partition, offset, key, value, then name and value of each header. The first line of all is
 * `ready` and the addresses. It ends with its input.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rdkafka.h"
#include "rdkafka_mock.h"

enum { LONGEST_LINE = 4096, MOST_WORDS = 64, PATIENCE_MS = 10000 };

static rd_kafka_mock_cluster_t *cluster;

static void answer(rd_kafka_resp_err_t err) {
        if (err)
                printf("error %s\n", rd_kafka_err2str(err));
        else
                printf("ok\n");
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value) {
        char why[512];
        if (rd_kafka_conf_set(conf, name, value, why, sizeof(why)) == RD_KAFKA_CONF_OK)
                return;
        fprintf(stderr, "%s\n", why);
        exit(1);
}

static rd_kafka_t *client(rd_kafka_type_t type, rd_kafka_conf_t *conf) {
        char why[512];
        rd_kafka_t *rk = rd_kafka_new(type, conf, why, sizeof(why));
        if (rk)
                return rk;
        fprintf(stderr, "%s\n", why);
        exit(1);
}

/* All partitions of all topics that are not refused, from their beginning. */
static rd_kafka_topic_partition_list_t *everything(rd_kafka_t *rk) {
        const struct rd_kafka_metadata *metadata;
        rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(16);
        if (rd_kafka_metadata(rk, 1, NULL, &metadata, PATIENCE_MS))
                return list;
        for (int t = 0; t < metadata->topic_cnt; t++)
                for (int p = 0; !metadata->topics[t].err && p < metadata->topics[t].partition_cnt; p++)
                        rd_kafka_topic_partition_list_add(list, metadata->topics[t].topic, p)->offset =
                            RD_KAFKA_OFFSET_BEGINNING;
        rd_kafka_metadata_destroy(metadata);
        return list;
}

static void print_message(const rd_kafka_message_t *message) {
        rd_kafka_headers_t *headers;
        printf("message\t%s\t%d\t%lld\t%.*s\t%.*s", rd_kafka_topic_name(message->rkt), (int)message->partition,
               (long long)message->offset, (int)message->key_len, (const char *)message->key, (int)message->len,
               (const char *)message->payload);
        if (!rd_kafka_message_headers(message, &headers)) {
                const char *name;
                const void *value;
                size_t size;
                for (size_t i = 0; !rd_kafka_header_get_all(headers, i, &name, &value, &size); i++)
                        printf("\t%s\t%.*s", name, (int)size, (const char *)value);
        }
        printf("\n");
}

static rd_kafka_resp_err_t read_all(void) {
        rd_kafka_conf_t *conf = rd_kafka_conf_new();
        set(conf, "bootstrap.servers", rd_kafka_mock_cluster_bootstraps(cluster));
        set(conf, "group.id", "the judge");
        set(conf, "enable.auto.commit", "false");
        set(conf, "enable.partition.eof", "true");
        set(conf, "check.crcs", "true");
        rd_kafka_t *rk                        = client(RD_KAFKA_CONSUMER, conf);
        rd_kafka_topic_partition_list_t *list = everything(rk);
        rd_kafka_resp_err_t err               = rd_kafka_assign(rk, list);
        int open                              = list->cnt;
        while (!err && open > 0) {
                rd_kafka_message_t *message = rd_kafka_consumer_poll(rk, PATIENCE_MS);
                if (!message) {
                        err = RD_KAFKA_RESP_ERR__TIMED_OUT;
                        break;
                }
                if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
                        open--;
                else if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR)
                        print_message(message);
                else
                        fprintf(stderr, "read: %s\n", rd_kafka_message_errstr(message));
                rd_kafka_message_destroy(message);
        }
        rd_kafka_topic_partition_list_destroy(list);
        rd_kafka_consumer_close(rk);
        rd_kafka_destroy(rk);
        return err;
}

static void push_errors(int16_t api, int count, char **words) {
        rd_kafka_resp_err_t errors[MOST_WORDS];
        for (int i = 0; i < count; i++)
                errors[i] = (rd_kafka_resp_err_t)atoi(words[i]);
        rd_kafka_mock_push_request_errors_array(cluster, api, (size_t)count, errors);
}

static void obey(int count, char **words) {
        const char *verb = count > 0 ? words[0] : "";
        if (!strcmp(verb, "topic") && count == 3) {
                answer(rd_kafka_mock_topic_create(cluster, words[1], atoi(words[2]), 1));
        } else if (!strcmp(verb, "refuse-topic") && count == 3) {
                rd_kafka_mock_topic_set_error(cluster, words[1], (rd_kafka_resp_err_t)atoi(words[2]));
                answer(0);
        } else if (!strcmp(verb, "errors") && count > 2) {
                push_errors((int16_t)atoi(words[1]), count - 2, words + 2);
                answer(0);
        } else if (!strcmp(verb, "cut") && count == 3) {
                for (int i = atoi(words[2]); i > 0; i--)
                        rd_kafka_mock_push_request_errors(cluster, (int16_t)atoi(words[1]), 1,
                                                          RD_KAFKA_RESP_ERR__TRANSPORT);
                answer(0);
        } else if (!strcmp(verb, "rtt") && count == 3) {
                answer(rd_kafka_mock_broker_set_rtt(cluster, atoi(words[1]), atoi(words[2])));
        } else if (!strcmp(verb, "down") && count == 2) {
                answer(rd_kafka_mock_broker_set_down(cluster, atoi(words[1])));
        } else if (!strcmp(verb, "up") && count == 2) {
                answer(rd_kafka_mock_broker_set_up(cluster, atoi(words[1])));
        } else if (!strcmp(verb, "leader") && count == 4) {
                answer(rd_kafka_mock_partition_set_leader(cluster, words[1], atoi(words[2]), atoi(words[3])));
        } else if (!strcmp(verb, "read") && count == 1) {
                answer(read_all());
        } else {
                printf("error no such command\n");
        }
}

int main(int argc, char **argv) {
        static char line[LONGEST_LINE];
        rd_kafka_conf_t *conf = rd_kafka_conf_new();
        set(conf, "log_level", "3");
        rd_kafka_t *rk = client(RD_KAFKA_PRODUCER, conf);
        cluster        = rd_kafka_mock_cluster_new(rk, argc > 1 ? atoi(argv[1]) : 3);
        printf("ready %s\n", rd_kafka_mock_cluster_bootstraps(cluster));
        fflush(stdout);
        while (fgets(line, sizeof(line), stdin)) {
                char *words[MOST_WORDS];
                int count = 0;
                for (char *word = strtok(line, " \n"); word && count < MOST_WORDS; word = strtok(NULL, " \n"))
                        words[count++] = word;
                obey(count, words);
                fflush(stdout);
        }
        rd_kafka_mock_cluster_destroy(cluster);
        rd_kafka_destroy(rk);
        return 0;
}
